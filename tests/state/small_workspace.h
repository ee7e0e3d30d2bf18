// A small trace in memory (tests/replay/small_trace.h) as one that the window has open.
#pragma once

#include "app/state/view_list.h"
#include "app/state/workspace.h"
#include "tests/gui/workspace_steps.h"
#include "tests/replay/small_trace.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <memory>
#include <string>

namespace kvloupe::state {

using replay::testing::SmallTrace;
using replay::testing::SmallTraceShape;

namespace testing {

// The trace must outlive it.
inline std::shared_ptr<OpenTrace> opened(const SmallTrace& trace, int id = 1,
                                         const std::string& path = "small.h5") {
  auto opened = std::make_shared<OpenTrace>();
  opened->id = id;
  opened->path = opened->name = path;
  opened->session = session::SessionPtr(session::SessionPtr(), &trace.session());
  opened->token_label.assign(static_cast<std::size_t>(trace.num_tokens()), "token");
  return opened;
}

inline Place place_in(const SmallTrace& trace, int layer, int q_head, int chunk, int id = 1) {
  Place place;
  place.trace = opened(trace, id);
  place.layer = layer;
  place.q_head = q_head;
  place.chunk = chunk;
  return place;
}

// A workspace in which every path leads to such a trace.
class SmallTraceViews : public ::testing::Test {
 protected:
  explicit SmallTraceViews(const SmallTraceShape& shape = {}) : trace_(shape) {}

  // What else is known of the trace as it is opened.
  virtual void describe(OpenTrace&) const {}

  void open(const std::string& path = "small.h5") {
    workspace_.traces.open(path);
    test::settle(workspace_);
    workspace_.begin_frame();
    ASSERT_TRUE(workspace_.has_trace());
  }
  void go_to(const std::string& place) { workspace_.cursor.go_to(parse_goto(place)); }
  void choose(const std::string& spec, Slot slot = Slot::A) {
    workspace_.cursor.set_method(slot, spec);
  }
  std::string problem_of_view(const char* view) {
    return test::problem_of_view(workspace_, *find_view(view));
  }
  test::ExactTable table_of(const char* view) {
    EXPECT_EQ(problem_of_view(view), "");
    return test::exact(find_view(view)->table(workspace_));
  }

  SmallTrace trace_;
  std::map<std::string, SmallTrace> others_;  // by the names of their files
  int last_id_ = 0;
  Workspace workspace_{
      std::make_shared<MemoryAccount>(), [this](const std::string& path, const MemoryAccountPtr&) {
        const auto other = others_.find(std::filesystem::path(path).filename().string());
        auto trace = opened(other == others_.end() ? trace_ : other->second, ++last_id_, path);
        describe(*trace);
        return TracePtr(trace);
      }};
};

}  // namespace testing
}  // namespace kvloupe::state
