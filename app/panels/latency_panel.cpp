// latency: the parts of a method against dense attention, measured live on this machine for the
// current cell.
#include "app/panels/latency_chart.h"
#include "app/panels/view_frame.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace kvloupe::panels {
namespace {

using measure::LatencyReport;
using state::LatencyQuestion;
using state::other_than;
using state::Slot;
using Timed = TimedMethod;

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
      if (const Latency& latency = timed.front().latency; latency) verdict_ui(context, *latency);
      body_ui(context, timed, 0);
      return;
    }
    start_first(workspace, timed);
    start_due(workspace.answers, timed);
    for (const Timed& of : timed) {
      ImGui::PushID(static_cast<int>(of.slot));
      controls_ui(context, of, timed);
      ImGui::PopID();
    }
    const bool begun = std::any_of(timed.begin(), timed.end(),
                                   [](const Timed& of) { return !is_idle(of.latency); });
    // The chart has the height, but for what attention reads.
    const bool both = ImGui::GetContentRegionAvail().y > widgets::em(24);
    if (begun) body_ui(context, timed, both ? widgets::em(8) : 0);
    if (!begun) before_run_ui(context, timed);
    if (!begun || both) reads_ui(context, timed);
  }

 private:
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

  // What a press of Run times, and where.
  static void before_run_ui(DrawContext& context, const std::vector<Timed>& timed) {
    const state::Place& place = timed.front().latency.question.place;
    const trace::ChunkInfo& chunk = place.chunk_info();
    const auto counted = [](std::int64_t n, const char* one, const char* several) {
      return fmt::format("{} {}", format_count(n), n == 1 ? one : several);
    };
    widgets::text_wrapped(
        context.palette.muted,
        fmt::format("Run times, in turns on {}, how a method chooses keys and attends to them for "
                    "{}, and dense attention to {}: layer {}, {}, all heads. Any input pauses it.",
                    place.device, counted(chunk.length, "query", "queries"),
                    counted(chunk.end(), "key", "keys"), place.layer,
                    chunk_name(place.info(), place.chunk)));
  }

  static bool is_idle(const Latency& latency) {
    return !latency && latency.state == state::ResultState::Empty && latency.note.empty();
  }

  static state::MethodFacts facts_of(DrawContext& context, const Timed& of) {
    const LatencyQuestion& question = of.latency.question;
    return *state::known_facts(context.workspace, question.place, question.method);
  }

  // What was timed, in one chart, how, and why something was not; leaves `below` of the height.
  static void body_ui(DrawContext& context, const std::vector<Timed>& timed, float below) {
    std::vector<Timed> done;
    for (const Timed& of : timed) {
      const Latency& result = of.latency;
      if (result) {
        done.push_back(of);
      } else if (result.state == state::ResultState::Error) {
        ImGui::PushID(static_cast<int>(of.slot));
        if (timed.size() > 1) letter_ui(context, of.slot);
        failure_ui(context, result.error);
        ImGui::PopID();
      } else if (result.state == state::ResultState::Loading) {
        widgets::loading_ui(context.palette, "Warming up");
      } else if (!result.note.empty()) {
        widgets::text_wrapped(context.palette.muted, result.note);
      }
    }
    if (done.empty()) return;
    for (const std::string& warning : {floor_warning_of(done), warning_of(done)})
      if (!warning.empty()) widgets::text_wrapped(context.palette.warning, warning);
    // The answer first; below it how it was measured.
    std::optional<widgets::FontScope> small;
    if (!context.figure) small.emplace(widgets::Type::Caption);
    const std::string conditions = conditions_of(done);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    const float words = ImGui::CalcTextSize(conditions.c_str(), nullptr, false, room.x).y +
                        2 * ImGui::GetStyle().ItemSpacing.y;
    small.reset();
    latency_chart_ui(context, done, room.y - below - words);
    if (!context.figure) small.emplace(widgets::Type::Caption);
    widgets::text_wrapped(context.palette.muted, conditions);
  }

  // Where and how: once for both, and for each how many rounds count.
  static std::string conditions_of(const std::vector<Timed>& done) {
    const LatencyReport& r = *done.front().latency;
    std::string rounds = rounds_of(done.front().latency);
    if (const std::string other = rounds_of(done.back().latency); other != rounds)
      rounds = fmt::format("A {}, B {}", rounds, other);
    std::string dense = r.dense_variant;
    if (const std::string& other = done.back().latency->dense_variant; other != dense)
      dense += " beside A, " + other + " beside B";
    return fmt::format(
        "Medians and quartiles: {}. {}, {}. Layer {}, {}: {} {} after {} {}. Dense is its fastest "
        "form here ({}). Parts need not add up to the total, which is one chain.{}",
        rounds, r.device, r.dtype, r.layer,
        chunk_name(done.front().latency.question.place.info(), r.chunk), format_count(r.chunk_len),
        r.chunk_len == 1 ? "query" : "queries", format_count(r.past_len),
        r.past_len == 1 ? "key" : "keys", dense,
        std::ranges::any_of(done, [](const Timed& one) { return one.latency->floor_holds(); })
            ? " The line across attend: attention over these keys cannot be faster on this machine."
            : "");
  }

  static std::string floor_warning_of(const std::vector<Timed>& done) {
    for (const Timed& one : done) {
      const LatencyReport& r = *one.latency;
      if (!r.finished || !r.timed() || r.floor_ms <= 0 || r.floor_holds()) continue;
      return fmt::format(
          "{}'s attention took {:.3g} ms, less than the {:.3g} ms that this machine was measured "
          "to "
          "need at least: it was busy then. Start KVLoupe again when nothing else runs.",
          state::letter_of(one.slot), r.attend.median_ms, r.floor_ms);
    }
    return "";
  }

  // Each method has its own dense attention beside it, so that both were as busy as it was; these should agree.
  static std::string warning_of(const std::vector<Timed>& done) {
    if (done.size() < 2) return "";
    const LatencyReport &a = *done.front().latency, &b = *done.back().latency;
    if (!a.finished || !b.finished || a.dense.samples == 0 || b.dense.samples == 0) return "";
    constexpr double kAgree = 1.2;
    const auto [less, more] = std::minmax(a.dense.median_ms, b.dense.median_ms);
    if (more <= less * kAgree) return "";
    return fmt::format(
        "Dense attention took {:.3g} ms beside A and {:.3g} ms beside B: the machine was busier in "
        "one of the runs. Run both again before you compare A with B.",
        a.dense.median_ms, b.dense.median_ms);
  }

  static std::string rounds_of(const Latency& result) {
    const LatencyReport& r = *result;
    std::string text =
        fmt::format("{} {}", r.total.samples, r.total.samples == 1 ? "sample" : "samples");
    if (const int busy = r.discarded - (r.gpu ? r.gpu->throttled : 0); busy > 0)
      text += fmt::format(", {} discarded (busy machine)", busy);
    if (const std::string gpu = r.gpu_words(); !gpu.empty()) text += ", " + gpu;
    if (result.state == state::ResultState::Loading)
      text += ", measuring";
    else if (!r.finished)
      text += ", stopped early";
    return text;
  }

  // The button, and what came of it.
  void controls_ui(DrawContext& context, const Timed& of, const std::vector<Timed>& timed) {
    const Latency& result = of.latency;
    state::Answers& answers = context.workspace.answers;
    const bool measures = result.state == state::ResultState::Loading;
    // Any press ends a measurement before this is drawn. Until it is let go the button is what was pressed.
    bool& is_stop = is_stop_[static_cast<std::size_t>(of.slot)];
    is_stop = measures || (is_stop && (ImGui::IsMouseDown(ImGuiMouseButton_Left) ||
                                       ImGui::IsMouseReleased(ImGuiMouseButton_Left)));
    const char letter = state::letter_of(of.slot);
    if (result.note.empty()) {
      if (is_stop) {
        if (ImGui::Button("Stop##latency")) answers.stop_measuring();
        if (ImGui::IsItemActivated()) time_next({});
      } else {
        ImGui::BeginDisabled(answers.measuring());
        if (ImGui::Button(fmt::format("Run {}##latency", letter).c_str()))
          answers.start(result.question);
        if (timed.size() == 2 && &of == &timed.front()) {
          ImGui::SameLine();
          if (ImGui::Button("Run both##latency")) {
            time_next({Slot::A, Slot::B});
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
    if (measures)
      text = fmt::format("measuring, {} of {} rounds done; other computations wait",
                         result ? result->total.samples : 0, measure::LatencyOptions{}.repetitions);
    else if (result && result->timed())
      text = state::verdict_of(*result);
    else if (result && result->finished)
      text = measure::kNotTimed;
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
    std::vector<Slot> slots;
    for (const Timed& of : timed) slots.push_back(of.slot);
    time_next(std::move(slots));
  }

  void time_next(std::vector<Slot> slots) {
    due_ = std::move(slots);
    is_begun_ = false;
  }

  // One after the other, of what is chosen then. One that an input has ended before its first round begins again.
  void start_due(state::Answers& answers, const std::vector<Timed>& timed) {
    if (due_.empty() || answers.measuring()) return;
    const auto first = std::ranges::find(timed, due_.front(), &Timed::slot);
    if (first == timed.end() || (is_begun_ && !is_idle(first->latency))) {
      return time_next({due_.begin() + 1, due_.end()});
    }
    if (is_begun_ && answers.busy()) return;
    is_begun_ = true;
    answers.start(first->latency.question);
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
      const state::MethodFacts::Chunk here = facts.at(place.chunk);
      if (!here.kept || facts.keeps_every_key()) continue;
      const bool dense = here.dense.has_value();
      const double keys = own + (dense ? past : std::min(past, static_cast<double>(*here.kept)));
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
        "a count, not a time: keys kept in this chunk by the row shown, and the chunk's own");
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

  static void verdict_ui(DrawContext& context, const LatencyReport& r) {
    if (r.total.samples == 0) return;
    const widgets::FontScope strong(widgets::Type::Title);
    widgets::text_wrapped(context.palette.text, state::verdict_of(r));
  }

  std::vector<Slot> due_;  // to be timed
  bool is_begun_ = false;  // the first of them, once at least
  bool seen_ = false;
  std::array<bool, 2> is_stop_{};  // the button of A and of B
};

}  // namespace

std::unique_ptr<Panel> make_latency_panel() { return std::make_unique<LatencyPanel>(); }

}  // namespace kvloupe::panels
