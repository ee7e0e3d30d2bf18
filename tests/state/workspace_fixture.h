// A workspace over real traces, which are written once for all tests of the program.
#pragma once

#include "tests/gui/gui_trace.h"
#include "tests/gui/workspace_steps.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace kvloupe::test {

class WorkspaceTest : public ::testing::Test {
 protected:
  // 1,000 tokens: eight chunks, the last one shorter; three layers; quoka, streaming_llm, a block
  // method and one that nobody knows were recorded.
  static const std::string& whole_trace() {
    static const std::string path = write_gui_trace("whole.h5", whole_options());
    return path;
  }
  // Half as long, of the same model, other numbers; one run.
  static const std::string& short_trace() {
    static const std::string path = [] {
      GuiTraceOptions options = whole_options();
      options.num_tokens = 500;
      options.seed = 2;
      options.runs = {"quoka:budget_tokens=128"};
      return write_gui_trace("short.h5", options);
    }();
    return path;
  }
  static GuiTraceOptions whole_options() {
    GuiTraceOptions options = {
        .num_tokens = 1000, .num_layers = 3, .layers = {0, 1, 2}, .needle_begin = 400};
    options.runs.emplace_back(kUnknownMethod);
    return options;
  }

  void open(const std::string& path = whole_trace()) {
    workspace.traces.open(path);
    settle(workspace);
    ASSERT_TRUE(workspace.has_trace()) << path;
  }
  // All that the window says, "error: " before what went wrong.
  void listen() {
    workspace.traces.on_message = [this](const std::string& text, bool is_error) {
      messages.push_back((is_error ? "error: " : "") + text);
    };
  }
  const state::Place& place() const { return workspace.place(); }
  template <state::Question Q>
  state::Result<Q> answer_to(const Q& question) {
    return answer(workspace, question);
  }

  std::vector<std::string> messages;
  state::Workspace workspace;
};

}  // namespace kvloupe::test
