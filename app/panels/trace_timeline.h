// A trace along its tokens: its chunks, its spans with their words, and how long each chunk took.
#pragma once

#include "app/panels/map_plot.h"
#include "app/state/questions/how_it_ran/trace_info.h"

#include <functional>
#include <vector>

namespace kvloupe::panels {

class TraceTimeline {
 public:
  // A click on a chunk goes there; a click on a span watches its keys. As high as its rows need. The
  // seconds of chunks stand below what is drawn `between`.
  void draw(DrawContext& context, const state::Place& place,
            const state::TraceInfoQuestion::Answer& answer, const std::function<void()>& between);

 private:
  using Fact = state::TraceInfoQuestion::Fact;

  // Spans of one name, or of one kind ("role:user", "role:assistant"), share a row where none covers
  // another.
  struct Row {
    std::string name;
    std::vector<const Fact*> spans;
  };
  static std::vector<Row> rows_of(const std::vector<const Fact*>& spans);
  void rows_ui(DrawContext& context, const state::Place& place, const std::vector<Row>& rows);
  void seconds_ui(DrawContext& context, const state::Place& place,
                  const std::vector<float>& seconds);
  void set_up_tokens(const state::Place& place);

  ImPlotRange x_;
  std::int32_t tokens_ = -1;  // that x_ is for
  ContentFit fit_;
};

}  // namespace kvloupe::panels
