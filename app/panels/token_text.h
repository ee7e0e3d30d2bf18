// The text of one place, each token in the colours of what became of its key: of one method, or of A and B
// together. A figure and the window draw it, once or once a trace.
#pragma once

#include "app/panels/token_colors.h"
#include "app/panels/view_frame.h"
#include "app/state/questions/kept/token_strip.h"
#include "app/state/token_text.h"

#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace kvloupe::panels {

// The text of the place, and what is known of its keys: all of one cell and one method.
struct Strip {
  state::Place place;
  const state::KvMapQuestion::Answer* map = nullptr;
  const state::SelectedVsTrueQuestion::Answer* verdicts = nullptr;
  bool stale = false;  // the answers are of an older place or method
};

class TokenText {
 public:
  struct Spec {
    const char* id = "text";
    ImVec2 size;
    const state::Place& here;  // whose text it is
    const std::vector<Strip>& strips;
    bool difference = false;                       // of A and B, who kept it
    std::int32_t pointed = -1;                     // a token marked as the one under the mouse
    std::function<bool(std::int32_t)> alone = {};  // of two traces: not in the other one
  };
  // What the mouse does in this frame.
  struct Mouse {
    std::int32_t over = -1;             // the token under it
    std::int32_t begin = -1, end = -1;  // keys that were clicked or dragged over; -1: none
    bool go = false;                    // to the chunk of `over`
  };
  Mouse draw(DrawContext& context, const Spec& spec);

  // The first line in view.
  struct Top {
    std::int32_t token = 0;  // its first
    float cut = 0;           // pixels of it that are above the view

    bool operator==(const Top& other) const {
      return token == other.token && std::abs(cut - other.cut) < 1;
    }
  };
  Top top() const { return top_; }
  // The token's line comes there in the next frame.
  void bring_to_top(Top top) {
    wanted_top_ = top;
    settling_ = 0;
  }

 private:
  // Where each token stands.
  class Layout {
   public:
    std::string key;                       // trace, width and font
    std::vector<float> x;                  // left edge, [T]
    std::vector<float> width;              // [T], ahead of x while it is laid out
    std::vector<std::int32_t> line_begin;  // first token of each line
    std::vector<std::int32_t> line;        // [T]

    void begin(const std::string& new_key) {
      *this = {};
      key = new_key;
      line_begin.push_back(0);
    }
    // True when all tokens stand.
    bool advance(const state::OpenTrace& trace, float room, std::size_t most_tokens) {
      const std::vector<std::string>& raw = trace.session->token_texts();
      const std::size_t last = trace.text.size();
      const std::size_t end = last - x.size() > most_tokens ? x.size() + most_tokens : last;
      for (std::size_t t = x.size(); t < end; ++t) {
        const float w = width_of(trace, t);
        if (at_ > 0 && at_ + std::max(w, word_width(trace, raw, t, room)) > room) new_line(t);
        x.push_back(at_);
        line.push_back(static_cast<std::int32_t>(line_begin.size()) - 1);
        at_ += w;
        if (raw[t].find('\n') != std::string::npos && t + 1 < last) new_line(t + 1);
      }
      return end == last;
    }
    std::int32_t num_lines() const { return static_cast<std::int32_t>(line_begin.size()); }
    // The tokens of the lines first to last, half-open.
    std::pair<std::int32_t, std::int32_t> tokens_of(std::int32_t first, std::int32_t last) const {
      const auto end = last < num_lines() ? line_begin[static_cast<std::size_t>(last)]
                                          : static_cast<std::int32_t>(x.size());
      return {line_begin[static_cast<std::size_t>(first)], end};
    }

   private:
    float width_of(const state::OpenTrace& trace, std::size_t token) {
      for (std::size_t t = width.size(); t <= token; ++t)
        width.push_back(std::max(2.0F, ImGui::CalcTextSize(trace.text[t].c_str()).x));
      return width[token];
    }
    // Of the word that begins here; 0 where none does, and of one that fits no line.
    float word_width(const state::OpenTrace& trace, const std::vector<std::string>& raw,
                     std::size_t token, float room) {
      if (!state::begins_word(raw[token])) return 0;
      float sum = width_of(trace, token);
      for (std::size_t t = token + 1; t < raw.size() && !state::begins_word(raw[t]); ++t) {
        if (raw[t - 1].find('\n') != std::string::npos) break;
        sum += width_of(trace, t);
        if (sum > room) return 0;
      }
      return sum;
    }
    void new_line(std::size_t token) {
      line_begin.push_back(static_cast<std::int32_t>(token));
      at_ = 0;
    }
    float at_ = 0;
  };

  bool lay_out(DrawContext& context, const state::OpenTrace& trace);
  Mouse text_ui(DrawContext& context, const Spec& spec, float line_height);
  void token_ui(DrawContext& context, const Spec& spec, const state::Place& here,
                std::int32_t token, ImVec2 origin, float line_height) const;
  static void back_ui(DrawContext& context, ImVec2 from, ImVec2 to, const TokenColors& colors);
  static void letters_ui(DrawContext& context, ImVec2 at, float line_height);
  static void edges_ui(DrawContext& context, ImVec2 from, ImVec2 to, const TokenColors& upper,
                       const TokenColors& lower, bool watched);
  void outline_ui(DrawContext& context, const state::Place& here, ImVec2 origin, float line_height,
                  std::int32_t from, std::int32_t to) const;
  void underline_ui(DrawContext& context, const state::Place& here, ImVec2 origin,
                    float line_height, std::int32_t from, std::int32_t to) const;
  void follow(DrawContext& context, const state::Place& here, float line_height);
  void scroll_to(std::int32_t token, float line_height, float share) const;
  void scroll_to_line(Top top, float line_height) const;
  Mouse point_at(DrawContext& context, const Spec& spec, ImVec2 origin, float line_height,
                 std::int32_t from, std::int32_t to);
  Mouse pressed(std::int32_t token);

  float margin_ = 0;  // before each line
  Layout layout_, next_layout_;
  state::Place followed_;                  // scrolled for
  std::string followed_layout_;            // the same
  std::pair<float, float> followed_room_;  // its height, and that of a line
  bool sees_span_ = false;                 // the watched span is in view
  std::set<unsigned> begun_;               // ids of the windows in which this text was shown
  int settling_ = 0;                       // frames in which a new text's room may still change
  Top top_;
  std::optional<Top> wanted_top_;  // to be it
  std::int32_t drag_from_ = -1;
};

}  // namespace kvloupe::panels
