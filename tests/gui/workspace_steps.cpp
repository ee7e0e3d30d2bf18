// See workspace_steps.h.
#include "tests/gui/workspace_steps.h"

#include "tests/gui/slowness.h"

#include <chrono>
#include <thread>

namespace kvloupe::test {

using namespace std::chrono_literals;

void settle(state::Workspace& workspace) {
  const auto end = std::chrono::steady_clock::now() + 30s * kSlowness;
  while (workspace.answers.busy() && std::chrono::steady_clock::now() < end)
    if (workspace.answers.deliver() == 0) std::this_thread::sleep_for(1ms);
}

std::string problem_of_view(state::Workspace& workspace, const state::ViewInfo& view) {
  std::string problem;
  for (int frame = 0; frame < 64; ++frame) {
    workspace.begin_frame();
    problem = view.problem(workspace);
    if (!workspace.answers.busy()) break;
    settle(workspace);
  }
  return problem;
}

HeldLane::HeldLane(state::Workspace& workspace, const std::vector<Lane>& lanes) {
  for (const Lane lane : lanes)
    workspace.answers.jobs().submit<int>(
        lane, "held lane " + std::to_string(static_cast<int>(lane)), "Holding the lane",
        [released = released_](const WorkContext& context) {
          while (!*released && !context.cancel.cancelled()) std::this_thread::sleep_for(1ms);
          return std::make_shared<const int>(0);
        },
        {}, {});
}

HeldLane::~HeldLane() { release(); }

void HeldLane::release() { *released_ = true; }

ExactTable exact(const table::Table& table) {
  ExactTable texts;
  for (const auto& column : table.columns) texts.columns.push_back(column.id);
  for (const auto& row : table.rows) {
    texts.rows.emplace_back();
    for (const auto& cell : row) texts.rows.back().push_back(table::exact_text(cell));
  }
  return texts;
}

const std::string& cell_of(const ExactTable& table, std::size_t row, const std::string& column) {
  const auto found = std::find(table.columns.begin(), table.columns.end(), column);
  return table.rows.at(row).at(static_cast<std::size_t>(found - table.columns.begin()));
}

double number_in(const ExactTable& table, std::size_t row, const std::string& column) {
  return std::stod(cell_of(table, row, column));
}

}  // namespace kvloupe::test
