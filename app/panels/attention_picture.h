// The attention of one head at one place: the whole map above, what methods kept of the chunk's keys between,
// the rows of the chunk below. The view draws it once, or once a trace.
#pragma once

#include "app/panels/map_plot.h"
#include "app/panels/matrix_picture.h"
#include "app/state/questions/kept/attention_map.h"
#include "app/state/questions/kept/selected_vs_true.h"
#include "app/state/shown_methods.h"

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::panels {

class AttentionPicture {
 public:
  using Strip = state::Result<state::AttentionStripQuestion>;
  using Map = state::Result<state::AttentionMapQuestion>;
  using Verdicts = state::Result<state::SelectedVsTrueQuestion>;
  // What is known of one method in the chunk drawn.
  struct Kept {
    std::size_t index = 0;  // 0 of A, 1 of B, in the colours of which it is named
    Verdicts verdicts;
    state::MethodFacts facts;
  };
  struct Pair {
    std::int32_t query = 0, key = 0;
  };
  // What a click chooses.
  using Choose = std::function<void(const Pair&)>;

  // Of this frame; the methods of A, of B, or of both.
  void ask(state::Workspace& workspace, const state::Place& now,
           const std::vector<std::pair<std::size_t, state::MethodChoice>>& methods);
  const Strip& strip() const { return strip_; }
  // That of what is drawn.
  const state::Place& place() const { return place_; }
  const std::vector<Kept>& kept() const { return kept_; }
  bool is_stale() const;
  std::int64_t num_broken() const;  // in the whole map, as far as it is known

  // Before draw(): other tokens, other ranges.
  void fit();
  ImPlotRange& keys() { return x_range_; }
  ImPlotRange& queries() { return y_range_; }
  // Fills the room there is. Marks `pointed`, where that is given. `show`: who kept what is drawn of A and B.
  // Returns what the mouse points at.
  std::optional<Pair> draw(DrawContext& context, ImVec2 room, state::Show show,
                           const std::optional<Pair>& pointed, const Choose& choose);

 private:
  Kept kept_of(state::Workspace& workspace, std::size_t index, const state::Place& now,
               const state::MethodChoice& method);
  void plots_ui(DrawContext& context, ImVec2 room);
  void whole_map_ui(DrawContext& context, ImVec2 size);
  void chunk_lines(DrawContext& context) const;
  void pointed_ui(DrawContext& context, bool with_query) const;
  void rugs_ui(DrawContext& context, float height);
  MapPlotSpec rug_of(const char* id, const std::string& label, float height);
  void rows_ui(DrawContext& context, ImVec2 size);
  static void question_rows_ui(DrawContext& context, const state::Place& place);
  state::Result<state::AttentionRowsQuestion> closer_rows(DrawContext& context) const;

  state::LastAnswer<state::AttentionStripQuestion> last_strip_;
  state::LastAnswer<state::AttentionMapQuestion> last_map_;
  std::array<state::LastAnswer<state::SelectedVsTrueQuestion>, 2> last_verdicts_;  // of A and B
  // Of this frame.
  Strip strip_;
  Map map_;
  std::vector<Kept> kept_;
  state::Place place_;
  state::Show shows_ = state::Show::One;
  std::optional<Pair> pointed_, hit_;
  Choose choose_;

  widgets::MapTexture map_texture_, rows_texture_;
  std::array<widgets::MapTexture, 2> rug_textures_;
  ImPlotRange x_range_, y_range_, rows_range_;
  double shown_tokens_ = 0;
  std::int32_t rows_shown_ = 0;
};

// The colours that the view's options ask for.
ColorRange attention_range(const state::Workspace& workspace);

}  // namespace kvloupe::panels
