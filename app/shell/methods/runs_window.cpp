#include "app/shell/methods/runs_window.h"

#include "app/shell/saved/run_marks_file.h"
#include "app/state/method_groups.h"
#include "app/state/number_text.h"
#include "app/state/run_names.h"
#include "app/state/token_text.h"
#include "app/widgets/figure.h"
#include "app/widgets/slot_button.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/replay/numbers.h"

#include <fmt/format.h>
#include <imgui_internal.h>
#include <misc/cpp/imgui_stdlib.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <utility>

namespace kvloupe::shell {

using state::MethodChoice;
using state::Slot;
using Summary = state::Result<state::RunSummaryQuestion>;

namespace {

// The watched keys, once some of them lie before the last of the chunks.
std::optional<trace::NamedKeys> watched_before(const state::Place& place,
                                               const state::NumberChunks& counted) {
  const auto span = state::watched_keys(place);
  const auto& chunks = place.info().chunks;
  if (chunks.empty()) return std::nullopt;
  const auto last =
      counted.range ? static_cast<std::size_t>(counted.range->last) : chunks.size() - 1;
  if (!span || span->keys.first() >= chunks.at(last).begin) return std::nullopt;
  return span;
}

// Of the watched keys in all chunks that count, by a row of heads.
replay::SpanCount count_in(const replay::ReplayResult& run, std::size_t row,
                           const trace::KeySet& keys, const state::NumberChunks& chunks) {
  replay::SpanCount sum;
  for (const replay::ReplayCell& cell : run.cells) {
    if (!chunks.has(cell.chunk) || row >= cell.rows.size()) continue;
    const replay::SpanCount here = replay::count_in_span(cell, row, keys);
    sum.kept += here.kept;
    sum.candidates += here.candidates;
  }
  return sum;
}

// Else why nothing is drawn.
template <typename Result>
bool is_here(const widgets::Palette& palette, const Result& result) {
  if (result.state == state::ResultState::Error) {
    widgets::text_colored(palette.faint, "failed");
    if (ImGui::IsItemHovered()) widgets::tooltip("%s", result.error.c_str());
    return false;
  }
  if (result && !result.stale) return true;
  widgets::text_colored(palette.faint, "\u2026");
  return false;
}

// Ids of the columns that are no number of numbers.h; a number's column has the number as its id.
constexpr ImGuiID kNameColumn = 1000, kWatched = 1001;

// The watched keys have a column of their own, of the heads shown; decode steps are not averaged.
std::vector<const replay::NumberInfo*> numbers_of_columns() {
  std::vector<const replay::NumberInfo*> numbers;
  for (const replay::NumberInfo& info : replay::kNumbers)
    if (info.rows == replay::InRows::All && info.number != replay::Number::SpanKept)
      numbers.push_back(&info);
  return numbers;
}

const std::vector<const replay::NumberInfo*>& columns() {
  static const std::vector<const replay::NumberInfo*> all = numbers_of_columns();
  return all;
}

// In a narrow panel the names need the room of the bars.
constexpr float kWithBar = 5.25F, kWithoutBar = 3.25F;

void set_up_columns(bool watched, float share_width) {
  ImGui::TableSetupScrollFreeze(1, 1);
  ImGui::TableSetupColumn("run", ImGuiTableColumnFlags_NoHide | ImGuiTableColumnFlags_WidthStretch,
                          1, kNameColumn);
  ImGui::TableSetupColumn("here",
                          ImGuiTableColumnFlags_WidthFixed |
                              ImGuiTableColumnFlags_PreferSortDescending |
                              (watched ? 0 : ImGuiTableColumnFlags_Disabled),
                          share_width, kWatched);
  for (const replay::NumberInfo* info : columns()) {
    ImGuiTableColumnFlags flags = ImGuiTableColumnFlags_WidthFixed;
    if (info->number != replay::Number::MassRecall) flags |= ImGuiTableColumnFlags_DefaultHide;
    if (info->higher_is_better()) flags |= ImGuiTableColumnFlags_PreferSortDescending;
    ImGui::TableSetupColumn(info->heading, flags,
                            info->is_share() ? share_width : widgets::em(4.5F),
                            static_cast<ImGuiID>(info->number));
  }
}

void give_shares(float width) {
  ImGuiTable& table = *ImGui::GetCurrentTable();
  table.Columns[1].WidthRequest = width;
  for (std::size_t i = 0; i < columns().size(); ++i)
    if (columns()[i]->is_share()) table.Columns[static_cast<int>(i) + 2].WidthRequest = width;
}

void header_ui(const std::string& watched) {
  ImGui::TableNextRow(ImGuiTableRowFlags_Headers);
  const float kept_width = widgets::em(4.5F);
  const auto head = [&](int column, const std::string& tooltip) {
    if (!ImGui::TableSetColumnIndex(column)) return;
    ImGui::TableHeader(column == 1 ? (widgets::elided(watched, kept_width) + "###here").c_str()
                                   : ImGui::TableGetColumnName(column));
    if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
      widgets::tooltip("%s\nclick: sort by it; right click: choose the columns", tooltip.c_str());
  };
  head(0, "Recorded runs, then the methods tried here.");
  head(1, "Keys of " + watched + " kept by the head shown, over the chunks named above.");
  int column = 2;
  for (const replay::NumberInfo* info : columns())
    head(column++, std::string(info->sentence) + "\nMean over the layer and chunks named above.");
}

void share_ui(const widgets::Palette& palette, double share, const std::string& words) {
  constexpr float kBar = 2.5F, kGap = 0.3F;
  if (ImGui::GetContentRegionAvail().x <
      widgets::em(kBar + kGap) + ImGui::CalcTextSize(words.c_str()).x)
    return widgets::text_colored(palette.text, words);
  widgets::share_bar_ui(palette, share, palette.hit, widgets::em(kBar), widgets::em(0.4F));
  ImGui::SameLine(0, widgets::em(kGap));
  widgets::text_colored(palette.muted, words);
}

void number_ui(const widgets::Palette& palette, const Summary& summary,
               const replay::NumberInfo& info) {
  if (!is_here(palette, summary)) return;
  const auto value = summary->numbers[info.number];
  if (!value) {
    const bool dense = info.number == replay::Number::MassRecall;
    return widgets::text_colored(palette.faint, dense ? "keeps all" : "\u2013");
  }
  if (info.is_share() && info.higher_is_better())
    share_ui(palette, *value, fmt::format("{:.2f}", *value));
  else
    widgets::text_colored(palette.text, state::number_text(info, *value));
}

std::string as_tried(const MethodChoice& method) { return MethodChoice{method.text, -1, {}}.key(); }

// One that was tried stays pinned when it is saved as a run.
bool is_pinned(const state::RunMarks& marks, const MethodChoice& method) {
  return marks.pins.contains(method.key()) ||
         (method.recorded() && marks.pins.contains(as_tried(method)));
}

void pin_ui(const widgets::Palette& palette) {
  const ImVec2 at = ImGui::GetCursorScreenPos();
  const float side = widgets::em(0.6F), middle = at.y + ImGui::GetTextLineHeight() / 2;
  ImDrawList* draw = ImGui::GetWindowDrawList();
  draw->AddLine({at.x + side / 2, middle}, {at.x + side / 2, middle + side * 0.8F}, palette.accent,
                widgets::em(0.1F));
  draw->AddCircleFilled({at.x + side / 2, middle - side * 0.2F}, side * 0.4F, palette.accent);
  ImGui::Dummy({side, ImGui::GetTextLineHeight()});
  ImGui::SameLine(0, widgets::em(0.3F));
}

// The trace and the method shown.
std::string shown_key(const state::Workspace& workspace) {
  return workspace.place().trace->key() + "|" + workspace.method().key();
}

// Of equal rows the order stays.
template <typename Key>
void sort_by(std::vector<Key>& keys, bool falling) {
  std::stable_sort(keys.begin(), keys.end(), [falling](const Key& a, const Key& b) {
    if (!a.first || !b.first) return a.first.has_value() && !b.first.has_value();
    return falling ? *a.first > *b.first : *a.first < *b.first;
  });
}

}  // namespace

void RunsWindow::draw(state::Workspace& workspace, const widgets::Palette& palette) {
  for (const std::string& failure : writer_.failures()) messages_.say(failure, true);
  if (!workspace.has_trace()) return;
  const state::Place place = workspace.place();
  // What is kept of a span is of the chunk shown, unless something else is chosen.
  chunks_ = state::number_chunks(workspace);
  spans_ = state::number_chunks(workspace, state::NumberScope::Kind::Chunk);
  watched_ = watched_before(place, spans_);
  const std::string name = watched_ ? printable(watched_->name) : "";
  const std::string of_span = state::words_of(spans_, place.info());
  const std::string of_numbers = state::words_of(chunks_, place.info());
  std::string scope = fmt::format("Numbers of all heads of layer {}, {}", place.layer, of_numbers);
  if (watched_)
    scope += fmt::format("; {} in the row of query head {} (KV head {}){}", name, place.q_head,
                         place.kv_head(), of_span == of_numbers ? "" : ", " + of_span);
  widgets::text_wrapped(palette.muted, scope + ".");
  std::vector<Row> rows = rows_of(workspace);
  if (rows.empty())
    return widgets::text_wrapped(palette.muted,
                                 "No run was recorded; the methods above are selected anew.");
  constexpr ImGuiTableFlags kFlags = ImGuiTableFlags_Sortable | ImGuiTableFlags_SortTristate |
                                     ImGuiTableFlags_Hideable | ImGuiTableFlags_Reorderable |
                                     ImGuiTableFlags_Resizable | ImGuiTableFlags_ScrollY |
                                     ImGuiTableFlags_RowBg | ImGuiTableFlags_BordersInnerH;
  const float share_width =
      widgets::em(ImGui::GetContentRegionAvail().x < widgets::em(24) ? kWithoutBar : kWithBar);
  ImGuiStorage& storage = *ImGui::GetStateStorage();
  if (!ImGui::BeginTable("runs", static_cast<int>(columns().size()) + 2, kFlags)) return;
  set_up_columns(watched_.has_value(), share_width);
  // A table has the widths of its first frame: those of shares follow the panel.
  float& laid_out_for = *storage.GetFloatRef(ImGui::GetID("width of shares"), share_width);
  if (laid_out_for != share_width) give_shares(share_width);
  laid_out_for = share_width;
  header_ui(name);
  sort(rows);
  std::stable_partition(rows.begin(), rows.end(), [](const Row& row) { return row.pinned; });
  const MethodChoice shown = workspace.method();
  const std::string following = shown_key(workspace);
  const bool changed = std::exchange(followed_, following) != following;
  for (const Row& row : rows) {
    ImGui::PushID(row.index);
    row_ui(workspace, palette, row);
    ImGui::PopID();
    if (changed && row.method == shown)
      ImGui::ScrollToItem(ImGuiScrollFlags_KeepVisibleCenterY | ImGuiScrollFlags_NoScrollParent);
  }
  ImGui::EndTable();
}

std::vector<RunsWindow::Row> RunsWindow::rows_of(state::Workspace& workspace) {
  const state::Place place = workspace.place();
  const state::TraceTab& tab = *workspace.traces.ready();
  std::vector<Row> rows;
  for (const auto* list : {&tab.recorded, &tab.tried})
    for (const MethodChoice& method : *list) {
      Row row;
      row.method = method;
      row.index = static_cast<int>(rows.size());
      row.tried = list == &tab.tried;
      row.pinned = is_pinned(tab.marks, method);
      row.summary = summaries_[method.key()].ask(workspace, {place, method, chunks_});
      if (watched_) row.run = kept_[method.key()].ask(workspace, {place, method});
      if (row.run && !row.run.stale) row.watched = watched_of(place, row);
      rows.push_back(std::move(row));
    }
  std::vector<MethodChoice> methods;
  std::set<std::string> keys;
  for (const Row& row : rows) {
    methods.push_back(row.method);
    keys.insert(row.method.key());
  }
  // A layer's selection is kept for what has a row.
  const auto has_no_row = [&](const auto& of) { return !keys.contains(of.first); };
  std::erase_if(summaries_, has_no_row);
  std::erase_if(kept_, has_no_row);
  const std::vector<std::string> labels = state::labels_of(workspace, methods);
  for (std::size_t i = 0; i < rows.size(); ++i) rows[i].label = labels[i];
  return rows;
}

replay::SpanCount RunsWindow::watched_of(const state::Place& place, const Row& row) const {
  return count_in(*row.run, static_cast<std::size_t>(state::row_of(place, *row.run)),
                  watched_->keys, spans_);
}

// As the table's head asks; at first in the order of the list.
void RunsWindow::sort(std::vector<Row>& rows) const {
  const ImGuiTableSortSpecs* specs = ImGui::TableGetSortSpecs();
  if (specs == nullptr || specs->SpecsCount == 0) return;
  const ImGuiTableColumnSortSpecs& by = specs->Specs[0];
  const bool falling = by.SortDirection == ImGuiSortDirection_Descending;
  if (by.ColumnUserID == kNameColumn) {
    std::stable_sort(rows.begin(), rows.end(), [falling](const Row& a, const Row& b) {
      return falling ? a.label > b.label : a.label < b.label;
    });
    return;
  }
  std::vector<std::pair<std::optional<double>, Row>> keyed;
  for (Row& row : rows) {
    std::optional<double> key;
    if (by.ColumnUserID == kWatched) {
      if (row.watched) key = static_cast<double>(row.watched->kept);
    } else if (row.summary && !row.summary.stale) {
      key = row.summary->numbers[static_cast<replay::Number>(by.ColumnUserID)];
    }
    keyed.emplace_back(key, std::move(row));
  }
  sort_by(keyed, falling);
  rows.clear();
  for (auto& [key, row] : keyed) rows.push_back(std::move(row));
}

void RunsWindow::row_ui(state::Workspace& workspace, const widgets::Palette& palette,
                        const Row& row) {
  ImGui::TableNextRow();
  for (const Slot slot : state::kSlots)
    if (workspace.method(slot) == row.method)
      ImGui::TableSetBgColor(ImGuiTableBgTarget_RowBg1,
                             widgets::with_alpha(widgets::color_of_slot(palette, slot), 0.10F));
  if (ImGui::TableSetColumnIndex(0)) {
    for (const Slot slot : state::kSlots) {
      if (widgets::slot_button_ui(palette, slot, workspace.method(slot) == row.method))
        show(workspace, slot, row.method);
      ImGui::SameLine(0, widgets::em(0.2F));
    }
    if (row.pinned) pin_ui(palette);
    if (renaming_ == row.method.text)
      rename_ui(workspace, row.method);
    else
      name_ui(workspace, row);
  }
  if (ImGui::TableSetColumnIndex(1)) watched_ui(palette, row);
  int column = 2;
  for (const replay::NumberInfo* info : columns())
    if (ImGui::TableSetColumnIndex(column++)) number_ui(palette, row.summary, *info);
}

// What is clicked here is in sight: the list stays where it is.
void RunsWindow::show(state::Workspace& workspace, Slot slot, const MethodChoice& method) {
  workspace.cursor.set_method(slot, method);
  followed_ = shown_key(workspace);
}

void RunsWindow::name_ui(state::Workspace& workspace, const Row& row) {
  const MethodChoice& method = row.method;
  const trace::RunInfo* run = method.run_info(workspace.place().info());
  const bool closed = run != nullptr && run->mode == trace::LoopMode::ClosedLoop;
  const float room = ImGui::GetContentRegionAvail().x;
  std::string name = widgets::elided_label(row.label, room);
  // How it was made goes where it has no room: it stands in the tooltip, too.
  const std::string made = closed ? ", closed loop" : row.tried ? ", tried here" : "";
  if (ImGui::CalcTextSize((name + made).c_str()).x <= room) name += made;
  if (ImGui::Selectable((name + "###name").c_str(), false, 0, {room, 0}))
    show(workspace, ImGui::GetIO().KeyCtrl ? Slot::B : Slot::A, method);
  if (ImGui::IsItemHovered(ImGuiHoveredFlags_AllowWhenDisabled))
    widgets::tooltip(
        "%s%s%s%s\nclick: show as A; Ctrl+click: as B; right click: more",
        state::readable_name(method.text).c_str(),
        closed      ? "\nclosed loop"
        : row.tried ? "\ntried here"
                    : "",
        method.known()        ? ""
        : method.brought_in() ? "\nbrought in: shown as recorded"
                              : "\nunknown to this version: shown as recorded",
        run != nullptr && run->basis_leakage ? "\nleakage: its basis was fitted on this text" : "");
  if (ImGui::IsItemHovered()) point_at(workspace, row);
}

// The name is typed where it stands. Enter takes it, an empty one removes it, Escape leaves it.
void RunsWindow::rename_ui(state::Workspace& workspace, const MethodChoice& method) {
  if (std::exchange(focus_, false)) ImGui::SetKeyboardFocusHere();
  ImGui::SetNextItemWidth(-1);
  const std::string hint = "a name for " + state::short_label(method);
  const bool entered = ImGui::InputTextWithHint(
      "###own name", hint.c_str(), &typed_,
      ImGuiInputTextFlags_EnterReturnsTrue | ImGuiInputTextFlags_AutoSelectAll);
  const bool left = ImGui::IsItemDeactivated();
  if (!entered && !left) return;
  const bool escaped = ImGui::IsKeyPressed(ImGuiKey_Escape, false);
  if (!escaped)
    change_marks(workspace, [&](state::RunMarks& marks) {
      if (typed_.find_first_not_of(' ') == std::string::npos)
        marks.names.erase(method.text);
      else
        marks.names[method.text] = typed_;
    });
  renaming_.clear();
}

void RunsWindow::point_at(state::Workspace& workspace, const Row& row) {
  state::Pointed pointed;
  pointed.words = pointed.row = row.label;
  if (row.watched)
    pointed.row += fmt::format("\t{} of {}", row.watched->kept, row.watched->candidates);
  if (row.summary && !row.summary.stale)
    for (const replay::NumberInfo* info : columns())
      if (const auto value = row.summary->numbers[info->number]) {
        const std::string text = state::number_text(*info, *value);
        pointed.row += "\t" + text;
        pointed.words += fmt::format("\n{} {}", info->heading, text);
      }
  pointed.menu = [this, &workspace, method = row.method, tried = row.tried] {
    menu_ui(workspace, method, tried);
  };
  workspace.pointer.at(std::move(pointed));
}

void RunsWindow::menu_ui(state::Workspace& workspace, const MethodChoice& method, bool tried) {
  state::TraceTab* tab = workspace.traces.ready();
  if (tab == nullptr) return;
  for (const Slot slot : state::kSlots)
    if (ImGui::MenuItem(fmt::format("Show as {}", state::letter_of(slot)).c_str()))
      workspace.cursor.set_method(slot, method);
  const bool pinned = is_pinned(tab->marks, method);
  if (ImGui::MenuItem(pinned ? "Unpin###pin" : "Pin to the top###pin"))
    change_marks(workspace, [&](state::RunMarks& marks) {
      marks.pins.erase(as_tried(method));
      marks.pins.erase(method.key());
      if (!pinned) marks.pins.insert(method.key());
    });
  if (ImGui::MenuItem("Name it\u2026###name it")) {
    renaming_ = method.text;
    typed_ = state::own_name(workspace, method);
    focus_ = true;
  }
  if (ImGui::MenuItem("Copy the SPEC")) ImGui::SetClipboardText(method.text.c_str());
  if (!tried) return;
  if (ImGui::MenuItem("Save as a run of the trace", nullptr, false, method.known()))
    save(workspace, method);
  if (ImGui::MenuItem("Remove from the list")) std::erase(tab->tried, method);
}

void RunsWindow::load_marks(state::TraceTab& tab) {
  // A trace that is recorded is read anew with every chunk, and what was marked meanwhile may not be
  // on the disk yet.
  if (std::exchange(tab.marks_loaded, true)) return;
  try {
    tab.marks = load_run_marks(tab.path);
  } catch (const Error& error) {
    messages_.say_once(error.what(), true);
  }
}

void RunsWindow::change_marks(state::Workspace& workspace,
                              const std::function<void(state::RunMarks&)>& change) {
  state::TraceTab& tab = *workspace.traces.ready();
  const state::RunMarks before = tab.marks;
  change(tab.marks);
  if (tab.marks == before) return;
  writer_.run([path = tab.path, before, now = tab.marks] { save_run_marks(path, before, now); });
}

void RunsWindow::watched_ui(const widgets::Palette& palette, const Row& row) const {
  if (!is_here(palette, row.run)) return;
  if (!row.watched) return widgets::text_colored(palette.faint, "\u2013");
  const auto [kept, candidates] = std::pair(row.watched->kept, row.watched->candidates);
  if (candidates == 0) return widgets::text_colored(palette.faint, "out of sight");
  share_ui(palette, static_cast<double>(kept) / static_cast<double>(candidates),
           fmt::format("{}/{}", kept, candidates));
}

// The command line selects and writes, as for an export.
void RunsWindow::save(state::Workspace& workspace, const MethodChoice& method) {
  const std::string path = workspace.traces.ready()->path;
  const std::vector<std::string> arguments{"select", path, "--method", method.text, "--save"};
  workspace.answers.jobs().submit<std::string>(
      Lane::Whole, fmt::format("save run|{}|{}", path, method.text),
      fmt::format("Saving {}", state::short_label(method)),
      [run = run_command, arguments](const WorkContext& context) {
        return std::make_shared<const std::string>(run(arguments, context.cancel));
      },
      [this, &workspace, path, method](std::shared_ptr<const std::string> problem) {
        if (!problem->empty()) return messages_.say(*problem, true);
        messages_.say(fmt::format("Saved {} as a run of {}.", state::short_label(method),
                                  printable(std::filesystem::path(path).filename().string())),
                      false);
        workspace.traces.grown(path, path);  // another trace may be in front by now
      },
      [this](const Error& error) { messages_.say(error.what(), true); });
}

}  // namespace kvloupe::shell
