#include "app/shell/frame/window_steps.h"

#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::size_t kMostSteps = 50;

template <typename Steps>
auto taken(Steps& steps) {
  auto step = std::move(steps.back());
  steps.pop_back();
  return step;
}

}  // namespace

void WindowSteps::push(std::function<void()> back, std::function<void()> forward) {
  undone_.clear();
  done_.push_back({std::move(back), std::move(forward), workspace_.selection()});
  if (done_.size() > kMostSteps) done_.erase(done_.begin());
}

bool WindowSteps::is_last() const {
  return !done_.empty() && done_.back().at == workspace_.selection();
}

bool WindowSteps::is_next() const {
  return !undone_.empty() && undone_.back().at == workspace_.selection();
}

void WindowSteps::back() {
  if (done_.empty()) return;
  Step step = taken(done_);
  step.back();
  step.at = workspace_.selection();
  undone_.push_back(std::move(step));
}

void WindowSteps::forward() {
  if (undone_.empty()) return;
  Step step = taken(undone_);
  step.forward();
  step.at = workspace_.selection();
  done_.push_back(std::move(step));
}

}  // namespace kvloupe::shell
