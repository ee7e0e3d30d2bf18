#include "app/panels/results_panel.h"

#include "app/panels/sample_recording_ui.h"
#include "app/state/questions/results/lost_answer.h"
#include "app/state/token_text.h"
#include "app/widgets/table.h"
#include "core/base/letters.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::panels {
namespace {

using state::ReadResults;
using trace::ResultSample;

constexpr float kCellHeight = 4, kTwoLines = 2.6F, kLeastCell = 1.5F, kMostCellWidth = 32;  // em
constexpr std::size_t kMostListed = 100;
constexpr const char* kHowToTrace =
    "Run the evaluation again with --resume --trace failing: that records the samples that a "
    "method fails and dense answers.";

// Names of rows, in the middle of their cells; a click compares with them.
void row_name_ui(DrawContext& context, const ScoreMap& map, std::size_t row, ImVec2 at, ImVec2 size,
                 const std::vector<std::string>* methods) {
  const widgets::Palette& p = context.palette;
  const bool strong = static_cast<int>(row) == map.strong_row;
  const widgets::FontScope font(strong ? widgets::Type::Strong : widgets::Type::Text);
  const std::string text = widgets::elided((*map.rows)[row], size.x - widgets::em(0.8F));
  ImGui::GetWindowDrawList()->AddText({at.x, at.y + (size.y - ImGui::GetTextLineHeight()) / 2},
                                      strong ? p.accent : p.text, text.c_str());
  if (context.figure || methods == nullptr) return;
  ImGui::SetCursorScreenPos(at);
  ImGui::PushID(static_cast<int>(row));
  if (ImGui::InvisibleButton("##row", size))
    context.workspace.results.sight.against = (*methods)[row];
  ImGui::PopID();
  if (ImGui::IsItemHovered())
    widgets::tooltip(
        {{printable((*methods)[row])},
         {strong ? "the others are compared with it" : "click: compare with it", 0, true}});
}

void cell_ui(DrawContext& context, const ScoreMap& map, const ScoreMap::Cell& cell, ImVec2 from,
             ImVec2 to) {
  const widgets::Palette& p = context.palette;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const bool known = !std::isnan(cell.tone);
  const ImU32 color = !known         ? p.raised
                      : map.diverges ? widgets::diverging_color(p, cell.tone)
                                     : widgets::score_color(p, cell.tone);
  draw->AddRectFilled(from, to, color, widgets::em(0.15F));
  if (known) draw->AddRect(from, to, p.line, widgets::em(0.15F));
  const ImU32 ink = known ? widgets::ink_on(color) : p.muted;
  const float width = to.x - from.x, height = to.y - from.y;
  const auto centred = [&](const std::string& text, float y) {
    const float wide = ImGui::CalcTextSize(text.c_str()).x;
    if (wide + widgets::em(0.4F) <= width)
      draw->AddText({from.x + (width - wide) / 2, y}, ink, text.c_str());
    return wide + widgets::em(0.4F) <= width;
  };
  if (cell.number.empty()) {
    const widgets::FontScope small(widgets::Type::Caption);
    centred(cell.beside, from.y + (height - ImGui::GetTextLineHeight()) / 2);
    return;
  }
  const bool two_lines = height > widgets::em(kTwoLines) && !cell.beside.empty();
  float y = from.y + (height - ImGui::GetTextLineHeight()) / 2;
  if (two_lines) y -= widgets::em(0.6F);
  {
    const widgets::FontScope strong(widgets::Type::Strong);
    centred(cell.number, y);
  }
  if (!two_lines) return;
  const widgets::FontScope small(widgets::Type::Caption);
  centred(cell.beside, y + widgets::em(1.3F));
}

bool lists(const state::ResultsSight& sight, const std::string& view) {
  return !sight.listed.empty() && sight.listed_in == view;
}

// Those that can be looked into first, then the worst.
std::vector<std::int32_t> by_interest(const ReadResults& results,
                                      std::vector<std::int32_t> samples) {
  const auto rank = [&](std::int32_t index) {
    const ResultSample& sample = results.sample(index);
    const double score = std::isnan(sample.score) ? -1e300 : sample.score;
    return std::pair(sample.trace.empty(), sample.higher_is_better ? score : -score);
  };
  std::stable_sort(samples.begin(), samples.end(),
                   [&](std::int32_t a, std::int32_t b) { return rank(a) < rank(b); });
  return samples;
}

void press_cell_ui(DrawContext& context, const ScoreMap& map, std::size_t index, ImVec2 from,
                   ImVec2 to) {
  const ScoreMap::Cell& cell = map.cells[index];
  if (context.figure || map.stale || cell.scores == nullptr || cell.scores->samples.empty()) return;
  ImGui::SetCursorScreenPos(from);
  ImGui::PushID(static_cast<int>(index));
  const state::ResultsSight& sight = context.workspace.results.sight;
  if (ImGui::InvisibleButton("##cell", {to.x - from.x, to.y - from.y}))
    list_samples(context, map.view, cell);
  ImGui::PopID();
  ImDrawList* draw = ImGui::GetWindowDrawList();
  const float round = widgets::em(0.15F), line = std::max(2.0F, widgets::em(0.18F));
  if (lists(sight, map.view) && sight.listed == cell.listed_as) {
    // Two lines, so that it stands out from dark cells and light ones; inside of it, for its neighbours are drawn
    // later.
    const auto inset_ui = [&](float by, ImU32 color) {
      draw->AddRect({from.x + by, from.y + by}, {to.x - by, to.y - by}, color, round, 0, line);
    };
    inset_ui(1.5F * line, context.palette.panel);
    inset_ui(0.5F * line, context.palette.accent);
  } else if (ImGui::IsItemHovered()) {
    draw->AddRect(from, to, context.palette.text, round, 0, 2.0F);
  }
  if (!ImGui::IsItemHovered()) return;
  state::Pointed pointed;
  pointed.words = cell.number;
  pointed.row = cell.listed_as + "\t" + cell.number;
  context.workspace.pointer.at(std::move(pointed));
  widgets::tooltip({{map.explain(cell)}, {"click: list its samples", 0, true}});
}

// Whole answers of a model that does not end would take the time of many frames.
std::string start_of(std::string_view text) {
  constexpr std::size_t kMostBytes = 2000;
  if (text.size() <= kMostBytes) return printable(text);
  std::size_t end = kMostBytes;
  while (end > kMostBytes - 4 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return printable(text.substr(0, end)) + "\u2026";
}

// What all samples share stands above the table.
table::Table table_of(const ReadResults& results, const std::vector<std::int32_t>& indices) {
  table::Table table{{"length", "depth", "score", "expected", "answer", "trace"}, {}};
  const auto varies = [&](std::string ResultSample::*member) {
    return std::any_of(indices.begin(), indices.end(), [&](std::int32_t index) {
      return results.sample(index).*member != results.sample(indices.front()).*member;
    });
  };
  const bool methods = varies(&ResultSample::method), tasks = varies(&ResultSample::task);
  if (tasks) table.columns.insert(table.columns.begin(), "task");
  if (methods) table.columns.insert(table.columns.begin(), "method");
  for (const std::int32_t index : indices) {
    const ResultSample& sample = results.sample(index);
    const auto known = [](std::int64_t value) {
      return value < 0 ? table::Cell(std::nullopt) : table::Cell(value);
    };
    const std::string answer = sample.refused.empty() ? start_of(trimmed(sample.answer))
                                                      : "refused: " + start_of(sample.refused);
    table.rows.push_back({known(sample.length),
                          std::isnan(sample.depth)
                              ? table::Cell(std::nullopt)
                              : table::Cell(format_shortest(sample.depth) + " %"),
                          std::isnan(sample.score) ? table::Cell(std::nullopt)
                                                   : table::Cell(state::score_text(sample.score)),
                          start_of(sample.expected), answer, ""});
    auto& row = table.rows.back();
    if (tasks) row.insert(row.begin(), printable(sample.task));
    if (methods) row.insert(row.begin(), results.label_of(sample.method));
  }
  return table;
}

// The way into the trace of a sample.
void trace_ui(DrawContext& context, const ReadResults& results, const ResultSample& sample) {
  const std::string trace = state::trace_of(results, sample);
  if (trace.empty()) {
    record_ui(context, results, sample);
  } else if (ImGui::SmallButton("Why?")) {
    state::open_lost_answer(context.workspace, results, sample);
  } else if (ImGui::IsItemHovered()) {
    widgets::tooltip("Opens %s where %s lost the answer", state::readable_name(trace).c_str(),
                     results.label_of(sample.method).c_str());
  }
}

}  // namespace

bool ResultsPanel::can_draw(DrawContext& context) {
  const state::OpenResults& results = context.workspace.results;
  if (results.ready()) return true;
  switch (results.state()) {
    case state::ResultState::Loading:
      widgets::loading_ui(context.palette, "Reading the results");
      break;
    case state::ResultState::Error: widgets::error_ui(context.palette, results.error()); break;
    default:
      widgets::empty_ui(context.palette,
                        "Open the results of an evaluation, which python -m kvloupe eval writes: "
                        "drop the file on the window.");
  }
  return false;
}

void ResultsPanel::draw_trace(DrawContext& context) { draw_results(context); }

void results_head_ui(DrawContext& context, const std::string& title, const std::string& measured) {
  const ReadResults& results = *context.workspace.results.ready();
  const trace::Results& file = results.file;
  std::vector<widgets::Chip> chips;
  if (!file.model.empty())
    chips.push_back({state::readable_name(file.model), 0, "The model that answered."});
  chips.push_back({state::words_of_samples(std::ssize(file.samples)), 0,
                   "A question that one method was asked is one sample."});
  if (!file.complete)
    chips.push_back({fmt::format("{} of {} samples", format_count(std::ssize(file.samples)),
                                 format_count(file.total)),
                     context.palette.warning, "The evaluation did not end: go on with --resume.",
                     "incomplete"});
  const std::string name = state::readable_name(file.path.substr(file.path.rfind('/') + 1));
  widgets::figure_head_ui(context.palette, context.figure, title, "",
                          fmt::format("{}  \u00B7  {}", name, measured), chips);
}

float score_map_height(const DrawContext& context, std::size_t rows, float room) {
  const float head = ImGui::GetTextLineHeightWithSpacing();
  const auto count = static_cast<float>(rows);
  const float least = head + count * widgets::em(kLeastCell);
  const float wanted = head + count * widgets::em(kCellHeight) * (context.figure ? 1.4F : 1);
  return std::clamp(wanted, least, std::max(room, least));
}

void score_map_ui(DrawContext& context, const ScoreMap& map, ImVec2 size,
                  const std::vector<std::string>* methods) {
  const std::size_t rows = map.rows->size(), columns = map.columns.size();
  float label = widgets::em(4);
  for (const std::string& row : *map.rows)
    label = std::max(label, ImGui::CalcTextSize(row.c_str()).x + widgets::em(1.4F));
  label = std::min(label, size.x * 0.4F);
  const float head = ImGui::GetTextLineHeightWithSpacing();
  const float gap = widgets::em(0.15F);
  const float width =
      std::min(widgets::em(kMostCellWidth),
               (size.x - label) / static_cast<float>(std::max<std::size_t>(columns, 1)));
  const float height = (size.y - head) / static_cast<float>(std::max<std::size_t>(rows, 1));
  const ImVec2 at = ImGui::GetCursorScreenPos();
  ImGui::PushID(map.id);
  {
    const widgets::FontScope small(widgets::Type::Caption);
    const float wide = ImGui::CalcTextSize(map.names_columns.c_str()).x;
    ImGui::GetWindowDrawList()->AddText({at.x + label - widgets::em(0.8F) - wide, at.y},
                                        context.palette.muted, map.names_columns.c_str());
  }
  for (std::size_t c = 0; c < columns; ++c) {
    const widgets::FontScope small(widgets::Type::Caption);
    const std::string text = widgets::elided(map.columns[c], width - gap);
    const float wide = ImGui::CalcTextSize(text.c_str()).x;
    ImGui::GetWindowDrawList()->AddText(
        {at.x + label + (static_cast<float>(c) + 0.5F) * width - wide / 2, at.y},
        context.palette.muted, text.c_str());
  }
  for (std::size_t r = 0; r < rows; ++r) {
    const float top = at.y + head + static_cast<float>(r) * height;
    row_name_ui(context, map, r, {at.x, top}, {label - widgets::em(0.4F), height}, methods);
    for (std::size_t c = 0; c < columns; ++c) {
      const ScoreMap::Cell& cell = map.cells[r * columns + c];
      const float wide = cell.fills_row ? width * static_cast<float>(columns) : width;
      const ImVec2 from(at.x + label + static_cast<float>(c) * width, top);
      const ImVec2 to(from.x + wide - gap, from.y + height - gap);
      cell_ui(context, map, cell, from, to);
      press_cell_ui(context, map, r * columns + c, from, to);
      if (cell.fills_row) break;
    }
  }
  ImGui::PopID();
  ImGui::SetCursorScreenPos(at);
  ImGui::Dummy(
      {label + width * static_cast<float>(columns), head + height * static_cast<float>(rows)});
}

void list_samples(DrawContext& context, const char* view, const ScoreMap::Cell& cell) {
  state::ResultsSight& sight = context.workspace.results.sight;
  sight.lists_finding = false;
  sight.listed = cell.listed_as;
  sight.listed_in = view;
  sight.of_listed = by_interest(*context.workspace.results.ready(), cell.scores->samples);
}

float samples_height(const DrawContext& context, const char* view, std::size_t rows, float room) {
  const state::ResultsSight& sight = context.workspace.results.sight;
  if (context.figure || !lists(sight, view)) return 0;
  const float line = ImGui::GetTextLineHeightWithSpacing();
  const float wanted = (static_cast<float>(sight.of_listed.size()) + 3.5F) * line;
  // The cells of one map keep both of their lines, unless the list would show next to nothing.
  const float beside = room - line - static_cast<float>(rows) * widgets::em(kTwoLines + 0.2F);
  return std::min({wanted, room * 0.5F, std::max(beside, 8 * line)});
}

void samples_ui(DrawContext& context, const char* view) {
  state::OpenResults& open = context.workspace.results;
  if (context.figure) return;
  if (!lists(open.sight, view)) {
    if (open.sight.listed.empty() &&
        ImGui::GetContentRegionAvail().y > 2 * ImGui::GetTextLineHeight())
      widgets::text_wrapped(context.palette.muted,
                            "Click a cell to list its samples: score, expected answer and answer.");
    return;
  }
  const state::ResultsPtr held = open.ready();  // a button below may ask for them anew
  const ReadResults& results = *held;
  const bool traced = std::ranges::any_of(open.sight.of_listed, [&](std::int32_t index) {
    return !results.sample(index).trace.empty();
  });
  std::string words = open.sight.listed;
  if (const std::string all = words + "; no trace of them was recorded";
      !traced &&
      ImGui::CalcTextSize(all.c_str()).x + widgets::em(10) < ImGui::GetContentRegionAvail().x)
    words = all;
  heading_ui(context, "Samples", words);
  if (!traced && ImGui::IsItemHovered()) widgets::tooltip(kHowToTrace);
  ImGui::SameLine(0, widgets::em(1));
  if (ImGui::SmallButton("Close##samples")) {
    open.sight.lists_finding = false;
    open.sight.listed.clear();
    open.sight.of_listed.clear();
    return;
  }
  std::vector<std::int32_t> indices = open.sight.of_listed;
  if (indices.size() > kMostListed) {
    indices.resize(kMostListed);
    widgets::text_colored(context.palette.muted,
                          fmt::format("the first {} of {}", kMostListed,
                                      format_count(std::ssize(open.sight.of_listed))));
  }
  const table::Table table = table_of(results, indices);
  widgets::TableLook look;
  look.weights = {0.7F, 0.6F, 0.6F, 1.5F, 4, 0.9F};
  look.weights.insert(look.weights.begin(), table.columns.size() - look.weights.size(), 1.2F);
  look.flags |= ImGuiTableFlags_ScrollY | ImGuiTableFlags_RowBg;
  look.pointer = &context.workspace.pointer;
  look.draw = [&](std::size_t row, std::size_t column) {
    if (column + 1 != table.columns.size()) return false;
    ImGui::PushID(static_cast<int>(row));
    trace_ui(context, results, results.sample(indices[row]));
    ImGui::PopID();
    return true;
  };
  widgets::table_ui(context.palette, "##samples", table, look);
}

}  // namespace kvloupe::panels
