// latency: the parts of a method against dense attention, measured live on this machine for the
// current cell.
#include "app/state/questions/how_much/latency.h"

#include "app/panels/view_frame.h"
#include "app/widgets/table.h"
#include "core/base/units.h"

#include <fmt/format.h>
#include <implot/implot.h>

#include <algorithm>
#include <array>
#include <optional>

namespace kvloupe::panels {
namespace {

using measure::LatencyReport;
using measure::LatencyStats;
using state::LatencyPart;
using state::LatencyQuestion;
using state::other_than;
using state::Slot;
// Of the current cell alone: a time measured in another cell is never shown here.
using Latency = state::Result<LatencyQuestion>;

class LatencyPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    state::Workspace& workspace = context.workspace;
    std::vector<Timed> timed;
    for (const Slot slot : slots_of(context))
      timed.push_back(
          {slot, workspace.ask(LatencyQuestion{workspace.place(), workspace.method(slot)})});
    if (context.figure) {
      const LatencyQuestion& question = timed.front().latency.question;
      method_head_ui(context, "Latency", question.place, facts_of(context, timed.front()),
                     timed.front().slot);
      body_ui(context, timed.front(), longest_of(timed), true);
      return;
    }
    start_first(workspace, timed);
    start_next(workspace, timed);
    const float gap = widgets::em(1.2F), room = ImGui::GetContentRegionAvail().x;
    const bool beside = timed.size() == 2 && room > widgets::em(50);
    const bool begun = std::any_of(timed.begin(), timed.end(),
                                   [](const Timed& of) { return !is_idle(of.latency); });
    // What was timed has the height, but for what attention reads.
    const bool fills = begun && (beside || timed.size() == 1);
    const float reads = ImGui::GetContentRegionAvail().y > widgets::em(22) ? widgets::em(8) : 0;
    const ImVec2 half{beside ? (room - gap) / 2 : 0,
                      fills && reads > 0 ? ImGui::GetContentRegionAvail().y - reads : 0};
    // Below each other, both buttons stay where they are while results come.
    const bool stacked = !beside && timed.size() == 2;
    if (stacked)
      for (const Timed& of : timed) {
        ImGui::PushID(static_cast<int>(of.slot));
        controls_ui(context, of, timed);
        ImGui::PopID();
      }
    for (const Timed& of : timed) {
      if (stacked && is_idle(of.latency)) continue;
      if (beside && &of != &timed.front()) ImGui::SameLine(0, gap);
      ImGui::PushID(static_cast<int>(of.slot));
      ImGui::BeginChild("timed", half, fills ? ImGuiChildFlags_None : ImGuiChildFlags_AutoResizeY);
      if (stacked)
        slot_ui(context, of);
      else
        controls_ui(context, of, timed);
      if (!is_idle(of.latency))
        body_ui(context, of, longest_of(timed), !stacked || &of == &timed.front());
      ImGui::EndChild();
      ImGui::PopID();
    }
    if (!begun) before_run_ui(context, timed);
    if (!fills || reads > 0) reads_ui(context, timed);
  }

 private:
  struct Timed {
    Slot slot = Slot::A;
    Latency latency;
  };

  // A figure is of the method shown, the window of A beside B.
  static std::vector<Slot> slots_of(DrawContext& context) {
    const state::Workspace& workspace = context.workspace;
    const Slot shown = workspace.selection().shown;
    const Slot other = other_than(shown);
    if (context.figure || workspace.method(other).empty() ||
        workspace.method(other) == workspace.method(shown))
      return {shown};
    return {Slot::A, Slot::B};
  }

  // What a press of Run times, and where: the table that it fills.
  static void before_run_ui(DrawContext& context, const std::vector<Timed>& timed) {
    const state::Place& place = timed.front().latency.question.place;
    const trace::ChunkInfo& chunk = place.chunk_info();
    const auto counted = [](std::int64_t n, const char* one, const char* several) {
      return fmt::format("{} {}", format_count(n), n == 1 ? one : several);
    };
    widgets::text_wrapped(
        context.palette.muted,
        fmt::format("Run times a method and dense attention in turns on {}, in layer {}, {}, for "
                    "all heads. Any input pauses it.",
                    place.device, place.layer, chunk_name(place.info(), place.chunk)));
    ImGui::Dummy({0, widgets::grid(0.5F)});
    const std::string queries = counted(chunk.length, "query", "queries");
    const std::array<std::pair<const char*, std::string>, 5> parts{
        {{"select", "choosing keys"},
         {"gather", "bringing them together"},
         {"attend", fmt::format("attention of {}", queries)},
         {"total", "the three as one chain"},
         {"dense", fmt::format("attention to {}", counted(chunk.end(), "key", "keys"))}}};
    table::Table table{{{"part", "part"}}, {}};
    widgets::TableLook look{{1.0F}};
    for (const Timed& of : timed) {
      const char letter = state::letter_of(of.slot);
      table.columns.push_back({std::string(1, letter),
                               fmt::format("{} {}, ms", letter, of.latency.question.method.id())});
      look.weights.push_back(1.6F);
    }
    table.columns.push_back({"meaning", "what is timed"});
    look.weights.push_back(5.0F);
    for (const auto& [name, meaning] : parts) {
      table.rows.emplace_back();
      table.rows.back().emplace_back(name);
      for (std::size_t i = 0; i < timed.size(); ++i) table.rows.back().emplace_back("\u2013");
      table.rows.back().emplace_back(meaning);
    }
    const std::size_t last = table.columns.size() - 1;
    look.ink = [&](std::size_t, std::size_t column) {
      return column == last ? context.palette.muted : context.palette.text;
    };
    widgets::table_ui(context.palette, "parts", table, look);
  }

  static void slot_ui(DrawContext& context, const Timed& of) {
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(
        widgets::color_of_slot(context.palette, of.slot),
        fmt::format("{}  {}", state::letter_of(of.slot), of.latency.question.method.id()));
  }

  static bool is_idle(const Latency& latency) {
    return !latency && latency.state == state::ResultState::Empty && latency.note.empty();
  }

  static state::MethodFacts facts_of(DrawContext& context, const Timed& of) {
    const LatencyQuestion& question = of.latency.question;
    return *state::known_facts(context.workspace, question.place, question.method);
  }

  // Of the bars of both, so that they compare.
  static double longest_of(const std::vector<Timed>& timed) {
    double longest = 1e-6;
    for (const Timed& of : timed)
      if (of.latency)
        for (const LatencyPart& part : state::parts_of(*of.latency))
          longest = std::max({longest, part.stats.q75_ms, part.stats.median_ms});
    return longest;
  }

  // `explains`: the sentence that holds of both is said here.
  void body_ui(DrawContext& context, const Timed& of, double longest, bool explains) {
    const Latency& result = of.latency;
    if (result) {
      report_ui(context, result, longest, explains);
      return;
    }
    switch (result.state) {
      case state::ResultState::Error: failure_ui(context, result.error); break;
      case state::ResultState::Loading: widgets::loading_ui(context.palette, "Warming up"); break;
      default: widgets::text_wrapped(context.palette.muted, result.note);
    }
  }

  // The button, and what came of it.
  void controls_ui(DrawContext& context, const Timed& of, const std::vector<Timed>& timed) {
    const Latency& result = of.latency;
    state::Answers& answers = context.workspace.answers;
    const bool here = result.state == state::ResultState::Loading;
    const char letter = state::letter_of(of.slot);
    if (result.note.empty()) {
      if (here) {
        if (ImGui::Button("Stop##latency")) {
          next_.reset();
          answers.stop_measuring();
        }
      } else {
        ImGui::BeginDisabled(answers.measuring());
        if (ImGui::Button(fmt::format("Run {}##latency", letter).c_str()))
          answers.start(result.question);
        if (timed.size() == 2 && &of == &timed.front()) {
          ImGui::SameLine();
          if (ImGui::Button("Run both##latency")) {
            answers.start(result.question);
            next_ = timed.back().latency.question;
          }
        }
        ImGui::EndDisabled();
      }
      ImGui::SameLine();
    }
    ImGui::AlignTextToFramePadding();
    widgets::text_colored(widgets::color_of_slot(context.palette, of.slot),
                          fmt::format("{} {}", letter, result.question.method.id()));
    std::string text;
    if (here)
      text = fmt::format("measuring, {} of {} rounds done; other computations wait",
                         result ? result->total.samples : 0, measure::LatencyOptions{}.repetitions);
    else if (result && result->total.samples > 0)
      text = state::verdict_of(*result);
    else if (answers.measuring())
      text = "waits for the measurement under way";
    if (text.empty()) return;
    ImGui::SameLine(0, widgets::em(0.8F));
    const widgets::FontScope strong(widgets::Type::Strong);
    widgets::text_colored(context.palette.text,
                          widgets::elided(text, ImGui::GetContentRegionAvail().x));
  }

  // Times stand in the view when it is first seen, unless something else is computed.
  void start_first(state::Workspace& workspace, const std::vector<Timed>& timed) {
    const auto idle = [](const Timed& of) { return is_idle(of.latency); };
    seen_ |= !std::all_of(timed.begin(), timed.end(), idle);
    if (seen_ || workspace.answers.busy()) return;
    seen_ = true;
    workspace.answers.start(timed.front().latency.question);
    if (timed.size() == 2) next_ = timed.back().latency.question;
  }

  // B after A, where both were asked for and nothing else was chosen since.
  void start_next(state::Workspace& workspace, const std::vector<Timed>& timed) {
    if (!next_ || workspace.answers.measuring()) return;
    const LatencyQuestion& last = timed.back().latency.question;
    if (last.key() == next_->key()) workspace.answers.start(last);
    next_.reset();
  }

  // What is known before anything is timed: attention over fewer keys reads less.
  static void reads_ui(DrawContext& context, const std::vector<Timed>& timed) {
    const state::Place& place = timed.front().latency.question.place;
    const auto past = static_cast<double>(place.chunk_info().begin);
    const auto own = static_cast<double>(place.chunk_info().length);
    if (past <= 0) return;
    struct Row {
      std::string name, words;
      double keys = 0;
      ImU32 color = 0;
    };
    std::vector<Row> rows;
    for (const Timed& of : timed) {
      const state::MethodFacts facts = facts_of(context, of);
      if (!facts.effective_budget || facts.keeps_every_key()) continue;
      const bool dense = facts.at(place.chunk).dense.has_value();
      const double keys = own + (dense ? past : std::min(past, *facts.effective_budget));
      rows.push_back({fmt::format("{} {}", state::letter_of(of.slot), facts.choice.id()),
                      dense ? std::string("dense in this chunk")
                            : fmt::format("{} keys, {:.1f} x fewer",
                                          format_count(std::llround(keys)), (past + own) / keys),
                      keys, widgets::color_of_slot(context.palette, of.slot)});
    }
    if (rows.empty()) return;
    rows.push_back({"dense", fmt::format("{} keys", format_count(std::llround(past + own))),
                    past + own, context.palette.current});
    ImGui::Dummy({0, widgets::grid(0.5F)});
    heading_ui(
        context, "Keys that attention reads",
        "a count, not a time: keys kept (mean of the chunks that select) and the chunk's own");
    const float name = widgets::em(8), words = widgets::em(12);
    const float line = ImGui::GetTextLineHeightWithSpacing();
    const float room = std::max(widgets::em(4), ImGui::GetContentRegionAvail().x - name - words);
    for (const Row& row : rows) {
      const ImVec2 at = ImGui::GetCursorScreenPos();
      const float end = at.x + name + room * static_cast<float>(row.keys / (past + own));
      ImDrawList* draw = ImGui::GetWindowDrawList();
      draw->AddText(at, context.palette.text, widgets::elided(row.name, name).c_str());
      draw->AddRectFilled({at.x + name, at.y + line * 0.1F}, {end, at.y + line * 0.72F}, row.color,
                          widgets::em(0.15F));
      draw->AddText({end + widgets::em(0.5F), at.y}, context.palette.muted, row.words.c_str());
      ImGui::Dummy({0, ImGui::GetTextLineHeight()});
    }
  }

  void report_ui(DrawContext& context, const Latency& result, double longest, bool explains) {
    const LatencyReport& r = *result;
    if (context.figure) verdict_ui(context, r);
    std::string text = fmt::format(
        "{}, {}  \u00B7  layer {}, {}: {} {} after {} {}  \u00B7  {} {}, median and quartiles",
        r.device, r.dtype, r.layer, chunk_name(result.question.place.info(), r.chunk),
        format_count(r.chunk_len), r.chunk_len == 1 ? "query" : "queries", format_count(r.past_len),
        r.past_len == 1 ? "key" : "keys", r.total.samples,
        r.total.samples == 1 ? "sample" : "samples");
    // Of A and B what is the same is said once.
    const bool said = !explains && text == explained_;
    if (explains) explained_ = text;
    if (said) text = "timed as A";
    if (const int busy = r.discarded - (r.gpu ? r.gpu->throttled : 0); busy > 0)
      text += fmt::format(", {} discarded (busy machine)", busy);
    if (const std::string gpu = r.gpu_words(); !gpu.empty()) text += "  \u00B7  " + gpu;
    if (result.state == state::ResultState::Loading)
      text += ", measuring";
    else if (!r.finished)
      text += ", stopped early";
    std::optional<widgets::FontScope> small;
    if (!context.figure) small.emplace(widgets::Type::Caption);
    widgets::text_wrapped(context.palette.muted, text);
    if (explains)
      widgets::text_wrapped(
          context.palette.muted,
          fmt::format(
              "dense: its fastest form here, {}, timed in turns with the method. Attention "
              "over what was kept cannot take less than {:.3g} ms on this machine. The "
              "total is one chain: its parts are timed separately and may not add up to it.",
              r.dense_variant, r.floor_ms));
    bars_ui(context, result, longest);
  }

  static void verdict_ui(DrawContext& context, const LatencyReport& r) {
    if (r.total.samples == 0) return;
    const widgets::FontScope strong(widgets::Type::Title);
    widgets::text_wrapped(context.palette.text, state::verdict_of(r));
  }

  // One bar a series: its length, its number and the middle of its whisker are the median.
  static void bars_ui(DrawContext& context, const Latency& result, double longest) {
    const auto& p = context.palette;
    std::vector<LatencyPart> parts = state::parts_of(*result);
    parts.back().name = "dense";
    const std::array colors{p.series[0], p.series[2], p.series[1],
                            widgets::mix(p.panel, p.text, 0.7), p.current};
    const float height = std::max(widgets::em(8.5F),
                                  std::min(ImGui::GetContentRegionAvail().y - 1, widgets::em(24)));
    if (!ImPlot::BeginPlot("##latency", {-1, height},
                           ImPlotFlags_CanvasOnly | ImPlotFlags_NoInputs))
      return;
    const auto last = static_cast<double>(parts.size()) - 1;
    // The numbers beside the bars have their unit.
    ImPlot::SetupAxes(context.figure ? "ms" : nullptr, nullptr, 0,
                      ImPlotAxisFlags_NoGridLines | ImPlotAxisFlags_Invert);
    // Room for the number right of the longest bar.
    const float width = std::max(ImGui::GetContentRegionAvail().x, widgets::em(20));
    const double room = widgets::em(7) / (width - widgets::em(13));
    ImPlot::SetupAxesLimits(0, longest * (1 + std::clamp(room, 0.15, 1.0)), -0.6, last + 0.6,
                            ImPlotCond_Always);
    std::vector<double> rows;
    std::vector<const char*> names;
    for (const LatencyPart& part : parts) {
      rows.push_back(static_cast<double>(rows.size()));
      names.push_back(part.name.c_str());
    }
    ImPlot::SetupAxisTicks(ImAxis_Y1, rows.data(), static_cast<int>(rows.size()), names.data());
    ImPlot::SetupFinish();
    for (std::size_t i = 0; i < parts.size(); ++i)
      bar_ui(context, rows[i], parts[i].stats, colors[i]);
    if (!context.figure) point_at(context, result, parts);
    ImPlot::EndPlot();
  }

  // The plot itself takes no input.
  static void point_at(DrawContext& context, const Latency& result,
                       const std::vector<LatencyPart>& parts) {
    const ImVec2 from = ImPlot::GetPlotPos(), size = ImPlot::GetPlotSize();
    if (!ImGui::IsWindowHovered() ||
        !ImGui::IsMouseHoveringRect(from, {from.x + size.x, from.y + size.y}))
      return;
    const auto row = std::clamp<std::int64_t>(std::llround(ImPlot::GetPlotMousePos().y), 0,
                                              static_cast<std::int64_t>(parts.size()) - 1);
    const LatencyPart& part = parts[static_cast<std::size_t>(row)];
    const LatencyStats& s = part.stats;
    context.workspace.pointer.at({.row = fmt::format("{}\t{:.6g}\t{:.6g}\t{:.6g}\t{}", part.name,
                                                     s.median_ms, s.q25_ms, s.q75_ms, s.samples),
                                  .place = result.question.place});
    widgets::tooltip(
        "%s: %.4g ms\nquartiles %.4g and %.4g ms, %s", part.name.c_str(), s.median_ms, s.q25_ms,
        s.q75_ms, fmt::format("{} {}", s.samples, s.samples == 1 ? "sample" : "samples").c_str());
  }

  static void bar_ui(DrawContext& context, double row, const LatencyStats& s, ImU32 color) {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    ImPlot::PushPlotClipRect();
    draw->AddRectFilled(ImPlot::PlotToPixels(0, row - 0.3),
                        ImPlot::PlotToPixels(s.median_ms, row + 0.3), color);
    const ImVec2 low = ImPlot::PlotToPixels(s.q25_ms, row);
    const ImVec2 high = ImPlot::PlotToPixels(s.q75_ms, row);
    const float cap = widgets::em(0.35F), line = widgets::em(0.11F);
    draw->AddLine(low, high, context.palette.text, line);
    for (const ImVec2 end : {low, high})
      draw->AddLine({end.x, end.y - cap}, {end.x, end.y + cap}, context.palette.text, line);
    const std::string text = fmt::format("{:.3g} ms", s.median_ms);
    draw->AddText({std::max(high.x, ImPlot::PlotToPixels(s.median_ms, row).x) + widgets::em(0.5F),
                   high.y - ImGui::GetTextLineHeight() / 2},
                  context.palette.text, text.c_str());
    ImPlot::PopPlotClipRect();
  }

  std::optional<LatencyQuestion> next_;
  std::string explained_;  // how A was timed
  bool seen_ = false;
};

}  // namespace

std::unique_ptr<Panel> make_latency_panel() { return std::make_unique<LatencyPanel>(); }

}  // namespace kvloupe::panels
