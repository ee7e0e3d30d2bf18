// What a test does with a workspace between two looks at it.
#pragma once

#include "app/state/view.h"
#include "app/state/workspace.h"

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace kvloupe::test {

// Until nothing is under way; gives up after half a minute.
void settle(state::Workspace& workspace);

// Frame after frame until the question has its last answer: ready, failed, or nothing to ask.
template <state::Question Q>
state::Result<Q> answer(state::Workspace& workspace, const Q& question) {
  for (int frame = 0; frame < 16; ++frame) {
    workspace.begin_frame();
    const state::Result<Q> result = workspace.ask(question);
    if (result.state != state::ResultState::Loading) return result;
    settle(workspace);
  }
  return workspace.ask(question);
}

// Does the work of a question here. Each report of that work is followed by a look at what is shown so
// far: null at first.
template <state::Question Q>
typename Q::Answer work_on(state::Workspace& workspace, const Q& question,
                           const std::function<void(const typename Q::Answer*)>& look) {
  const std::string key = "work";
  state::AnswerStore store(std::make_shared<MemoryAccount>());
  store.begin(key, false);
  WorkContext context;
  context.progress = [&](std::int64_t, std::int64_t, const std::string&) {
    look(static_cast<const typename Q::Answer*>(store.find(key)->answer.get()));
  };
  state::Steps steps(workspace.answers, &store, key, context);
  return question.work(steps);
}

// Asks for all that the view needs until it stands; "" when there is something to draw.
std::string problem_of_view(state::Workspace& workspace, const state::ViewInfo& view);

// Keeps lanes of the workspace busy until they are released: what is asked meanwhile stays under way.
// It must go before the workspace.
class HeldLane {
 public:
  explicit HeldLane(state::Workspace& workspace,
                    const std::vector<Lane>& lanes = {Lane::Compute, Lane::Whole});
  ~HeldLane();
  HeldLane(const HeldLane&) = delete;
  HeldLane& operator=(const HeldLane&) = delete;
  void release();

 private:
  std::shared_ptr<std::atomic<bool>> released_ = std::make_shared<std::atomic<bool>>(false);
};

// A table as its CSV has it.
struct ExactTable {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};
ExactTable exact(const table::Table& table);
// The value of a column in a row.
const std::string& cell_of(const ExactTable& table, std::size_t row, const std::string& column);
double number_in(const ExactTable& table, std::size_t row, const std::string& column);

}  // namespace kvloupe::test
