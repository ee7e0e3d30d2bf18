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

WindowSteps::Moment WindowSteps::now() const {
  Moment moment{workspace_.selection(), ""};
  if (state::TracePtr& trace = moment.selection.place.trace) moment.trace = trace->key();
  moment.selection.place.trace = nullptr;
  return moment;
}

void WindowSteps::push(std::function<void()> back, std::function<void()> forward) {
  undone_.clear();
  done_.push_back({std::move(back), std::move(forward), now()});
  if (done_.size() > kMostSteps) done_.erase(done_.begin());
}

bool WindowSteps::is_last() const { return !done_.empty() && done_.back().at == now(); }

bool WindowSteps::is_next() const { return !undone_.empty() && undone_.back().at == now(); }

void WindowSteps::back() {
  if (done_.empty()) return;
  Step step = taken(done_);
  step.back();
  step.at = now();
  undone_.push_back(std::move(step));
}

void WindowSteps::forward() {
  if (undone_.empty()) return;
  Step step = taken(undone_);
  step.forward();
  step.at = now();
  done_.push_back(std::move(step));
}

}  // namespace kvloupe::shell
