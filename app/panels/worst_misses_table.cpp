// See worst_misses_table.h.
#include "app/panels/worst_misses_table.h"

#include "app/state/token_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <type_traits>

namespace kvloupe::panels {
namespace {

using replay::LostKey;
using replay::Regret;
using replay::Stage;
using state::MissColumn;
using state::MissFilter;
using state::WorstMissesQuestion;
using Misses = state::Result<WorstMissesQuestion>;

// What is chosen of one coordinate; `name` gives the words of a choice.
template <typename T, typename Name>
void combo_ui(const char* id, const char* everything, float width, const std::vector<T>& choices,
              std::optional<T>& chosen, const Name& name) {
  beside_ui(widgets::em(0.6F), widgets::em(width));
  ImGui::SetNextItemWidth(widgets::em(width));
  const std::string now = chosen ? name(*chosen) : std::string(everything);
  if (!ImGui::BeginCombo(id, now.c_str())) return;
  if (ImGui::Selectable(everything, !chosen)) chosen.reset();
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const std::string label = fmt::format("{}##{}", name(choices[i]), i);
    if (ImGui::Selectable(label.c_str(), chosen && name(*chosen) == name(choices[i])))
      chosen = choices[i];
  }
  ImGui::EndCombo();
}

std::string name_of_span(const trace::TokenSpan& span) {
  return fmt::format("{} ({}\u2013{})", state::readable_name(span.name), span.begin, span.end - 1);
}

// The token between its neighbours, as much as there is room for; tokens stand below one another.
void context_ui(DrawContext& context, const state::Place& place, std::int64_t key) {
  const std::vector<std::string>& text = place.trace->text;
  const auto at = static_cast<std::size_t>(key);
  if (at >= text.size()) return;
  constexpr std::size_t kNeighbours = 10;
  const ImVec2 origin = ImGui::GetCursorScreenPos();
  const float room = ImGui::GetContentRegionAvail().x, left = room * 0.42F;
  const auto width = [](const std::string& words) { return ImGui::CalcTextSize(words.c_str()).x; };
  std::size_t first = at;
  std::string before;
  while (first > 0 && at - first < kNeighbours && width(text[first - 1] + before) < left)
    before = text[--first] + before;
  std::string after;
  for (std::size_t i = at + 1; i < text.size() && i <= at + kNeighbours; ++i) after += text[i];
  const std::string token = widgets::elided(text[at], room - left);
  const float from = origin.x + left, to = from + width(token);
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddText({from - width(before), origin.y}, context.palette.faint, before.c_str());
  draw->AddRectFilled({from, origin.y}, {to, origin.y + ImGui::GetTextLineHeight()},
                      widgets::mix(context.palette.panel, context.palette.miss, 0.3),
                      widgets::em(0.15F));
  draw->AddText({from, origin.y}, context.palette.text, token.c_str());
  const float right = origin.x + room - to;
  if (right > widgets::em(1))
    draw->AddText({to, origin.y}, context.palette.faint, widgets::elided(after, right).c_str());
  ImGui::Dummy({room, ImGui::GetTextLineHeight()});
}

void cause_ui(DrawContext& context, Stage cause, const std::string& words) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float line = ImGui::GetTextLineHeight(), box = widgets::em(0.65F);
  const float top = at.y + (line - box) / 2;
  widgets::key_rect(ImGui::GetWindowDrawList(), context.palette, {at.x, top},
                    {at.x + box, top + box}, widgets::color_of(context.palette, cause),
                    widgets::em(0.15F));
  ImGui::Dummy({box, line});
  ImGui::SameLine(0, widgets::em(0.4F));
  widgets::text_colored(context.palette.text, words);
}

// What a cell holds beside its words.
template <typename Line>
void cell_ui(DrawContext& context, const Line& line, const MissColumn<Line>& column,
             const std::string& words) {
  if constexpr (std::is_same_v<Line, LostKey>)
    if (&column == &state::lost_columns().back()) {
      if (line.cause) cause_ui(context, *line.cause, words);
      return;
    }
  widgets::text_colored(context.palette.text, words);
}

template <typename Line>
void point_at(DrawContext& context, const state::Place& place, const Line& line,
              const std::vector<MissColumn<Line>>& columns, const selection::RowLayout& layout) {
  const state::MissPlace there = state::place_of(line);
  const auto key = static_cast<std::int32_t>(line.key);
  state::Pointed pointed{.place = place, .keys = {key, key + 1}};
  pointed.place->layer = there.layer;
  pointed.place->q_head = there.row * std::max(1, layout.q_heads_per_row);
  pointed.place->chunk = there.chunk;
  pointed.words = "key " + token_line(place, key);
  pointed.row = place.trace->token_label[static_cast<std::size_t>(key)];
  for (std::size_t c = 1; c < columns.size(); ++c) {
    const std::string text = columns[c].text(line, layout);
    pointed.words += fmt::format("\n{} {}", columns[c].title, text);
    pointed.row += "\t" + text;
  }
  context.workspace.pointer.at(std::move(pointed));
}

}  // namespace

void MissFilterBar::draw(DrawContext& context, const Misses& result, bool causes) {
  if (context.figure) return;
  const state::Place& place = result.question.place;
  const auto& layout = result->lost.layout;
  const std::string content = fmt::format("{}|{}", place.trace_key(), layout.q_heads_per_row);
  if (content != content_) filter_ = {};
  content_ = content;
  if (!causes) filter_.cause.reset();
  beside_ui(widgets::em(1), widgets::em(11));
  ImGui::AlignTextToFramePadding();
  widgets::text_colored(context.palette.muted, "show");
  combo_ui("##layer", "all layers", 7, place.info().layers, filter_.layer,
           [](int layer) { return fmt::format("layer {}", layer); });
  std::vector<int> rows(
      static_cast<std::size_t>(place.info().model.num_q_heads / layout.q_heads_per_row));
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<int>(i);
  combo_ui("##head", "all heads", 9, rows, filter_.row,
           [&](int row) { return replay::row_words(layout, row); });
  if (causes)
    combo_ui("##cause", "all causes", 9, result->causes, filter_.cause,
             [](Stage cause) { return std::string(replay::words_of(cause)); });
  if (!place.info().spans.empty())
    combo_ui("##span", "any key", 13, place.info().spans, filter_.span, name_of_span);
}

std::string MissFilterBar::key() const {
  const auto number = [](const auto& value) { return value ? static_cast<int>(*value) : -1; };
  return fmt::format("{}|{}|{}|{}", number(filter_.layer), number(filter_.row),
                     number(filter_.cause), filter_.span ? name_of_span(*filter_.span) : "");
}

template <typename Line>
void MissTable<Line>::sort(const Misses& result, const std::vector<Line>& lines,
                           const std::vector<MissColumn<Line>>& columns, const MissFilter& filter,
                           const std::string& filter_key) {
  const std::string content = fmt::format("{}|{}|{}|{}", result.key, filter_key, column_, falling_);
  if (content == content_ && lines.size() == num_lines_) return;
  // Another list is read from its top; one that grows, layer by layer, from where it stands.
  if (content != content_) ImGui::SetScrollY(0);
  content_ = content;
  num_lines_ = lines.size();
  order_ = state::lines_of(lines, filter, columns[static_cast<std::size_t>(column_)], falling_,
                           result.question.place.trace->token_label);
}

template <typename Line>
void MissTable<Line>::draw(DrawContext& context, const Misses& result,
                           const std::vector<Line>& lines,
                           const std::vector<MissColumn<Line>>& columns, int first_column,
                           const MissFilter& filter, const std::string& filter_key) {
  ImGuiTableFlags flags = ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH |
                          ImGuiTableFlags_SizingStretchProp | ImGuiTableFlags_PadOuterX;
  float width = 0;
  if (!context.figure) {
    flags |= ImGuiTableFlags_ScrollX | ImGuiTableFlags_ScrollY | ImGuiTableFlags_Sortable |
             ImGuiTableFlags_Resizable | ImGuiTableFlags_NoBordersInBodyUntilResize;
    // As wide as the view, unless that is too narrow for the columns.
    width = ImGui::GetContentRegionAvail().x < widgets::em(48) ? widgets::em(48) : 0;
  }
  // A figure shows as many lines as fit whole below the heads of the columns.
  const float line_height = ImGui::GetTextLineHeight() + 2 * ImGui::GetStyle().CellPadding.y;
  constexpr int kLeastOnPaper = 10;  // the page grows by what they need
  const auto most =
      std::max(static_cast<int>(ImGui::GetContentRegionAvail().y / (line_height + 0.5F)) - 1,
               context.least_plot > 0 ? kLeastOnPaper : 0);
  const char* id = std::is_same_v<Line, LostKey> ? "##lost" : "##regrets";
  if (!ImGui::BeginTable(id, static_cast<int>(columns.size()), flags, {0, 0}, width)) return;
  ImGui::TableSetupScrollFreeze(0, 1);
  for (std::size_t i = 0; i < columns.size(); ++i) {
    ImGuiTableColumnFlags column = ImGuiTableColumnFlags_WidthStretch;
    if (columns[i].falling) column |= ImGuiTableColumnFlags_PreferSortDescending;
    if (static_cast<int>(i) == first_column) column |= ImGuiTableColumnFlags_DefaultSort;
    // A column of paper is too narrow for a token's neighbours beside the words of the cause.
    const bool on_paper = context.least_plot > 0 && ImGui::GetWindowWidth() < widgets::em(60);
    const float share = !on_paper ? 1 : i == 0 ? 0.4F : i + 1 == columns.size() ? 1.35F : 1.15F;
    ImGui::TableSetupColumn(columns[i].title, column, share * columns[i].weight);
  }
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  for (const MissColumn<Line>& column : columns) {
    ImGui::TableNextColumn();
    ImGui::TableHeader(column.title);
    if (!context.figure && *column.meaning != 0 && ImGui::IsItemHovered())
      widgets::tooltip("%s\nclick: sort by it", column.meaning);
  }
  column_ = first_column;
  falling_ = columns[static_cast<std::size_t>(first_column)].falling;
  if (const ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
      specs != nullptr && specs->SpecsCount > 0) {
    column_ = specs->Specs[0].ColumnIndex;
    falling_ = specs->Specs[0].SortDirection == ImGuiSortDirection_Descending;
  }
  sort(result, lines, columns, filter, filter_key);
  const auto& layout = result->lost.layout;
  const state::Place& here = context.workspace.place();
  auto count = static_cast<int>(order_.size());
  if (context.figure) count = std::clamp(most, 0, count);
  ImGuiListClipper clipper;
  clipper.Begin(count);
  while (clipper.Step())
    for (int i = clipper.DisplayStart; i < clipper.DisplayEnd; ++i) {
      const Line& line = lines[static_cast<std::size_t>(order_[static_cast<std::size_t>(i)])];
      const state::MissPlace there = state::place_of(line);
      ImGui::TableNextRow();
      ImGui::TableNextColumn();
      if (!context.figure) {
        const bool chosen = !result.stale && state::is_at(here, there, layout);
        if (ImGui::Selectable(
                fmt::format("###line {}", i).c_str(), chosen,
                ImGuiSelectableFlags_SpanAllColumns | ImGuiSelectableFlags_AllowOverlap) &&
            !result.stale)
          state::go_to(context.workspace, there, layout);
        if (ImGui::IsItemHovered()) point_at(context, result.question.place, line, columns, layout);
        ImGui::SameLine(0, 0);
      }
      context_ui(context, result.question.place, line.key);
      for (std::size_t c = 1; c < columns.size(); ++c) {
        ImGui::TableNextColumn();
        cell_ui(context, line, columns[c], columns[c].text(line, layout));
      }
    }
  ImGui::EndTable();
}

template class MissTable<LostKey>;
template class MissTable<Regret>;

}  // namespace kvloupe::panels
