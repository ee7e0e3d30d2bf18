#include "app/shell/frame/window_steps.h"

#include <utility>

namespace kvloupe::shell {
namespace {

constexpr std::size_t kMostSteps = 50;

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

void WindowSteps::take(std::vector<Step>& from, std::vector<Step>& to,
                       std::function<void()> Step::*way) {
  if (from.empty()) return;
  Step step = std::move(from.back());
  from.pop_back();
  (step.*way)();
  step.at = now();
  to.push_back(std::move(step));
}

}  // namespace kvloupe::shell
