// token_strip: the text itself, each token coloured by what happened to its key in the current
// chunk.
#include "app/panels/view_parts.h"
#include "app/state/token_text.h"

#include "core/base/units.h"

#include <fmt/format.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <cmath>

namespace kvloupe::panels {
namespace {

using analysis::KeyState;
using analysis::KeyVerdict;

// Where each token stands when the text is wrapped to a width.
struct TextLayout {
  std::string key;
  std::vector<float> x;                  // left edge, [T]
  std::vector<float> width;              // [T]
  std::vector<std::int32_t> line_begin;  // first token of each line
  std::vector<std::int32_t> line;        // [T]

  void build(const state::TraceTab& tab, float room) {
    const std::string wanted = fmt::format("{}|{}|{}", tab.id, room, ImGui::GetFontSize());
    if (wanted == key) return;
    key = wanted;
    x.clear();
    width.clear();
    line.clear();
    line_begin.assign(1, 0);
    float at = 0;
    const auto& raw = tab.source->token_texts();
    for (std::size_t t = 0; t < tab.text.size(); ++t) {
      const float w = std::max(2.0F, ImGui::CalcTextSize(tab.text[t].c_str()).x);
      if (at > 0 && at + w > room) {
        line_begin.push_back(static_cast<std::int32_t>(t));
        at = 0;
      }
      x.push_back(at);
      width.push_back(w);
      line.push_back(static_cast<std::int32_t>(line_begin.size()) - 1);
      at += w;
      if (raw[t].find('\n') != std::string::npos && t + 1 < tab.text.size()) {
        line_begin.push_back(static_cast<std::int32_t>(t) + 1);
        at = 0;
      }
    }
  }
};

class TokenStripPanel final : public Panel {
 public:
  void draw(DrawContext& context) override {
    if (!trace_ready_ui(context)) return;
    auto& workspace = context.workspace;
    const auto slot = workspace.selection().shown;
    widgets::figure_head_ui(context.palette, context.figure, "Token strip",
                            method_caption(workspace, slot), place_caption(workspace),
                            method_chips(context, slot));
    const auto map = workspace.kv_map(slot);
    const auto verdicts = workspace.selected_vs_true(slot);
    method_note_ui(context, slot);
    if (!context.figure) search_ui(context);
    legend(context);
    if (map.state == state::ResultState::Error) {
      widgets::error_ui(context.palette, map.error);
      return;
    }
    ImGui::Dummy({0, widgets::em(0.2F)});
    ImGui::BeginChild("text", {0, 0});
    text_ui(context, map, verdicts);
    ImGui::EndChild();
  }

  Table table(state::Workspace& workspace) override {
    Table table{{"position", "token", "chunk", "state", "verdict", "mass", "evicted_after"}, {}};
    const auto slot = workspace.selection().shown;
    const auto map = workspace.kv_map(slot);
    const auto verdicts = workspace.selected_vs_true(slot);
    if (!map) return table;
    const auto chunk = static_cast<std::size_t>(workspace.selection().chunk);
    for (std::int32_t t = 0; t < map->map.num_tokens; ++t) {
      const auto i = static_cast<std::size_t>(t);
      const bool judged = verdicts && i < verdicts->verdict.size() && t < workspace.chunk().begin;
      table.rows.push_back(
          {cell(std::int64_t{t}), workspace.ready()->token_label[i],
           cell(std::int64_t{workspace.info().chunk_of_token(t)}),
           state::label_of(map->map.at(chunk, t)),
           judged ? state::label_of(verdicts->verdict[i]) : "",
           verdicts && i < verdicts->mass.size() ? cell(double{verdicts->mass[i]}) : "",
           map->map.death_of(t) ? cell(std::int64_t{*map->map.death_of(t)}) : ""});
    }
    return table;
  }

  std::string problem(state::Workspace& workspace) override {
    workspace.selected_vs_true(workspace.selection().shown);
    return problem_of(workspace.kv_map(workspace.selection().shown));
  }

 private:
  void search_ui(DrawContext& context) {
    auto& workspace = context.workspace;
    ImGui::SetNextItemWidth(widgets::em(14));
    if (ImGui::Shortcut(ImGuiMod_Ctrl | ImGuiKey_F, ImGuiInputFlags_RouteGlobal))
      ImGui::SetKeyboardFocusHere();
    const bool entered = ImGui::InputTextWithHint("##search", "Search the text (Ctrl+F)", &search_,
                                                  ImGuiInputTextFlags_EnterReturnsTrue);
    const std::string key = fmt::format("{}|{}", workspace.ready()->id, search_);
    if (key != search_key_) {
      search_key_ = key;
      matches_ = state::find_text(workspace.ready()->source->token_texts(), search_);
      match_ = -1;
    }
    if (search_.empty()) {
      ImGui::SameLine();
      return;
    }
    const auto jump = [&](int by) {
      if (matches_.empty()) return;
      const auto n = static_cast<int>(matches_.size());
      match_ = match_ < 0 ? (by > 0 ? 0 : n - 1) : (match_ + by + n) % n;
      const std::int32_t token = matches_[static_cast<std::size_t>(match_)];
      workspace.set_key_span(token, token + 1);
    };
    if (entered) {
      jump(1);
      ImGui::SetKeyboardFocusHere(-1);
    }
    ImGui::SameLine();
    if (ImGui::ArrowButton("##previous", ImGuiDir_Up)) jump(-1);
    ImGui::SameLine();
    if (ImGui::ArrowButton("##next", ImGuiDir_Down)) jump(1);
    ImGui::SameLine();
    widgets::text_colored(context.palette.muted,
                          matches_.empty() ? std::string("not found")
                          : match_ < 0     ? fmt::format("{} found", matches_.size())
                                           : fmt::format("{} of {}", match_ + 1, matches_.size()));
    ImGui::SameLine(0, widgets::em(1));
  }

  static void legend(DrawContext& context) {
    const auto& p = context.palette;
    using Shape = widgets::LegendItem::Shape;
    widgets::legend_ui(p, {{"kept", p.hit},
                           {"missed: true, not kept", p.miss},
                           {"sink", p.sink},
                           {"recent", p.recent},
                           {"all kept (dense)", p.dense},
                           {"current chunk", p.current},
                           {"span of the trace", p.text, Shape::Line}});
  }

  struct Look {
    ImU32 back = 0;
    ImU32 ink = 0;
  };

  static Look look_of(DrawContext& context, const state::Result<state::KvMapResult>& map,
                      const state::Result<analysis::SelectedVsTrue>& verdicts, std::int32_t token) {
    const auto& p = context.palette;
    const auto& chunk = context.workspace.chunk();
    if (token >= chunk.end()) return {0, p.faint};
    if (!map) return {0, p.muted};
    const KeyState state =
        map->map.at(static_cast<std::size_t>(context.workspace.selection().chunk), token);
    const auto i = static_cast<std::size_t>(token);
    const bool missed = token < chunk.begin && verdicts && i < verdicts->verdict.size() &&
                        verdicts->verdict[i] == KeyVerdict::Miss;
    if (missed) return {widgets::mix(p.panel, p.miss, 0.42), p.text};
    switch (state) {
      case KeyState::Kept:
      case KeyState::Sink:
      case KeyState::Recent:
        return {widgets::mix(p.panel, widgets::color_of(p, state), 0.42), p.text};
      case KeyState::Dense:
        return {widgets::mix(p.panel, p.dense, 0.6), p.text};
      case KeyState::Current:
        return {widgets::mix(p.panel, p.current, 0.28), p.text};
      default:
        return {0, p.muted};
    }
  }

  void text_ui(DrawContext& context, const state::Result<state::KvMapResult>& map,
               const state::Result<analysis::SelectedVsTrue>& verdicts) {
    auto& workspace = context.workspace;
    const state::TraceTab& tab = *workspace.ready();
    const widgets::FontScope mono(widgets::fonts().mono, context.figure ? 0.88F : 0.95F);
    const float line_height = ImGui::GetTextLineHeight() * 1.42F;
    layout_.build(tab, ImGui::GetContentRegionAvail().x - widgets::em(0.6F));
    follow(context, line_height);
    const ImVec2 origin = ImGui::GetCursorScreenPos();
    const auto num_lines = static_cast<std::int32_t>(layout_.line_begin.size());
    const float scroll = ImGui::GetScrollY();
    const auto first =
        std::clamp(static_cast<std::int32_t>(scroll / line_height), 0, num_lines - 1);
    const auto last = std::min(
        num_lines, first + static_cast<std::int32_t>(ImGui::GetWindowHeight() / line_height) + 2);
    ImDrawList* draw = ImGui::GetWindowDrawList();
    const auto num_tokens = static_cast<std::int32_t>(tab.text.size());
    const std::int32_t from = layout_.line_begin[static_cast<std::size_t>(first)];
    const std::int32_t to =
        last < num_lines ? layout_.line_begin[static_cast<std::size_t>(last)] : num_tokens;
    const auto& s = workspace.selection();
    for (std::int32_t t = from; t < to; ++t) {
      const auto i = static_cast<std::size_t>(t);
      const ImVec2 at(origin.x + layout_.x[i],
                      origin.y + line_height * static_cast<float>(layout_.line[i]));
      const ImVec2 end(at.x + layout_.width[i], at.y + line_height - 2);
      const Look look = look_of(context, map, verdicts, t);
      if (look.back != 0) draw->AddRectFilled(at, {end.x - 0.5F, end.y}, look.back, 2);
      if (s.has_keys() && t >= s.key_begin && t < s.key_end)
        draw->AddRect({at.x - 1, at.y}, end, context.palette.accent, 2, 0, widgets::em(0.11F));
      draw->AddText({at.x, at.y + line_height * 0.1F}, look.ink, tab.text[i].c_str());
    }
    underline_ui(context, draw, origin, line_height, from, to);
    ImGui::Dummy({1, line_height * static_cast<float>(num_lines)});
    if (!context.figure && ImGui::IsWindowHovered())
      point_at(context, map, verdicts, origin, line_height, from, to);
  }

  void underline_ui(DrawContext& context, ImDrawList* draw, ImVec2 origin, float line_height,
                    std::int32_t from, std::int32_t to) {
    for (const trace::TokenSpan& span : context.workspace.info().spans) {
      if (span.name.rfind("role", 0) == 0) continue;
      const bool needle = span.name.rfind("needle", 0) == 0;
      for (std::int32_t t = std::max(from, span.begin); t < std::min(to, span.end); ++t) {
        const auto i = static_cast<std::size_t>(t);
        const float y = origin.y + line_height * static_cast<float>(layout_.line[i] + 1) - 2;
        const float x = origin.x + layout_.x[i];
        draw->AddLine({x, y}, {x + layout_.width[i], y},
                      needle ? context.palette.text : context.palette.muted,
                      widgets::em(needle ? 0.16F : 0.1F));
      }
    }
  }

  // Scrolls to what was selected elsewhere; a figure begins a little before the watched span.
  void follow(DrawContext& context, float line_height) {
    auto& workspace = context.workspace;
    const auto span = workspace.watched_span();
    const std::int32_t target = span ? span->begin : context.figure ? 0 : workspace.chunk().begin;
    const std::string key = fmt::format("{}|{}", target, layout_.key);
    if (key == followed_ || target >= static_cast<std::int32_t>(layout_.line.size())) return;
    const float y =
        line_height * static_cast<float>(layout_.line[static_cast<std::size_t>(target)]);
    const bool visible = y >= ImGui::GetScrollY() &&
                         y + line_height < ImGui::GetScrollY() + ImGui::GetWindowHeight();
    if (!visible)
      ImGui::SetScrollY(std::max(
          0.0F, std::floor((y - ImGui::GetWindowHeight() * 0.35F) / line_height) * line_height));
    followed_ = key;
  }

  void point_at(DrawContext& context, const state::Result<state::KvMapResult>& map,
                const state::Result<analysis::SelectedVsTrue>& verdicts, ImVec2 origin,
                float line_height, std::int32_t from, std::int32_t to) {
    auto& workspace = context.workspace;
    const ImVec2 mouse = ImGui::GetMousePos();
    const auto line = static_cast<std::int32_t>((mouse.y - origin.y) / line_height);
    for (std::int32_t t = from; t < to; ++t) {
      const auto i = static_cast<std::size_t>(t);
      if (layout_.line[i] != line || mouse.x < origin.x + layout_.x[i] ||
          mouse.x >= origin.x + layout_.x[i] + layout_.width[i])
        continue;
      if (ImGui::IsMouseClicked(ImGuiMouseButton_Left)) drag_from_ = t;
      if (ImGui::IsMouseDown(ImGuiMouseButton_Left) && drag_from_ >= 0)
        workspace.set_key_span(std::min(drag_from_, t), std::max(drag_from_, t) + 1);
      if (ImGui::IsMouseDoubleClicked(ImGuiMouseButton_Left))
        workspace.set_chunk(workspace.info().chunk_of_token(t));
      std::string text = fmt::format("token {}\nchunk {}", token_line(workspace, t),
                                     workspace.info().chunk_of_token(t));
      if (verdicts && i < verdicts->mass.size())
        text +=
            fmt::format("\nmass from this chunk {:.5g}", static_cast<double>(verdicts->mass[i]));
      if (verdicts && i < verdicts->verdict.size() && t < workspace.chunk().begin)
        text += fmt::format("\n{}", state::label_of(verdicts->verdict[i]));
      if (map)
        if (const auto death = map->map.death_of(t))
          text += fmt::format("\nevicted after chunk {}", *death);
      ImGui::SetTooltip("%s\n\nclick or drag: follow these keys; double click: go to the chunk",
                        text.c_str());
      return;
    }
    if (!ImGui::IsMouseDown(ImGuiMouseButton_Left)) drag_from_ = -1;
  }

  TextLayout layout_;
  std::string search_, search_key_, followed_;
  std::vector<std::int32_t> matches_;
  int match_ = -1;
  std::int32_t drag_from_ = -1;
};

}  // namespace

std::unique_ptr<Panel> make_token_strip_panel() { return std::make_unique<TokenStripPanel>(); }

}  // namespace kvloupe::panels
