// decode_drift: how far a closed loop goes from the dense model on the same tokens. Left the difference of
// their losses, the distance of what each predicts next, and both losses; right how far queries and keys
// have moved, by layer and chunk, and what each of the two answers.
#include "app/panels/map_plot.h"
#include "app/panels/matrix_picture.h"
#include "app/panels/token_series.h"
#include "app/state/method_groups.h"
#include "app/state/questions/how_it_ran/decode_drift.h"
#include "app/state/token_text.h"
#include "app/widgets/ink.h"
#include "core/base/code_point.h"
#include "core/base/letters.h"
#include "core/base/printable.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace kvloupe::panels {
namespace {

using analysis::DecodeDrift;
using state::DecodeDriftQuestion;
using state::Place;
using Drifts = state::Result<DecodeDriftQuestion>;

constexpr const char* kView = "decode_drift";
constexpr ImPlotFlags kPlotFlags = ImPlotFlags_NoTitle | ImPlotFlags_NoLegend |
                                   ImPlotFlags_NoMenus | ImPlotFlags_NoMouseText |
                                   ImPlotFlags_NoBoxSelect;

ImU32 closed_color(const widgets::Palette& palette) { return palette.series[0]; }
ImU32 dense_color(const widgets::Palette& palette) { return palette.series[3]; }

class DecodeDriftPanel final : public Panel {
 public:
  void draw_trace(DrawContext& context) override {
    const Drifts result =
        shown_.ask(context.workspace, DecodeDriftQuestion{context.workspace.place()});
    head_ui(context, result);
    if (!context.figure && !result.question.place.info().has_losses) {
      widgets::text_wrapped(context.palette.muted,
                            "This trace holds no losses. A closed loop that is captured with its "
                            "drift has them, beside the dense model's.");
      capture_button_ui(context);
      return;
    }
    if (!ready_ui(context, result, "Reading the losses")) return;
    if (std::exchange(found_for_, result.key) != result.key)  // it reads every token
      look_at(*result, result.question.place, context.figure);
    headline_ui(context, found_);
    if (!context.figure && !result->against_dense()) capture_button_ui(context);
    legend(context, *result);
    const ImVec2 room = ImGui::GetContentRegionAvail();
    if (!result->against_dense()) {
      losses_ui(context, result, room.y - ImGui::GetTextLineHeightWithSpacing());
      return;
    }
    const bool wide = room.x > widgets::em(56);
    // A map of few layers is a strip, and needs no half of the width.
    const float share = state::drift_matrix(*result, "q").rows > kFewLayers ? 0.56F : 0.68F;
    // Below each other a figure's plots leave room for the answers.
    const float half = wide ? room.y : room.y * (context.figure ? 0.4F : 0.5F);
    // A wide figure is filled; else the parts are as high as they need, and the window scrolls, the page of
    // a figure grows.
    const bool fills = context.figure && wide;
    // Above the plots stand names of spans, below the last one its axis.
    float height = plots_height(context, context.figure ? half : half - widgets::em(4));
    if (!fills)
      height =
          std::max(height, kPlots * (least_plot_height() + ImGui::GetTextLineHeightWithSpacing()));
    const ImGuiWindowFlags flags =
        context.figure ? ImGuiWindowFlags_NoScrollbar : ImGuiWindowFlags_None;
    ImGui::BeginChild("tokens", {wide ? room.x * share : room.x, fills ? half : 0},
                      fills ? ImGuiChildFlags_None : ImGuiChildFlags_AutoResizeY, flags);
    const float each =
        height / kPlots - ImGui::GetTextLineHeightWithSpacing() - ImGui::GetStyle().ItemSpacing.y;
    // Below each other one token lies at one place. The difference comes first: in a low window the losses, which
    // lie on each other, are below the fold.
    const bool aligned = ImPlot::BeginAlignedPlots("##tokens", true);
    worse_ui(context, result, each);
    distances_ui(context, result, each);
    // It has the axis of all three.
    const float rest = ImGui::GetContentRegionAvail().y - ImGui::GetTextLineHeightWithSpacing() - 1;
    losses_ui(context, result, fills ? rest : each + widgets::em(kAxis));
    if (aligned) ImPlot::EndAlignedPlots();
    ImGui::EndChild();
    if (wide) ImGui::SameLine(0, widgets::em(1));
    ImGui::BeginChild("model", {0, 0}, ImGuiChildFlags_AutoResizeY, flags);
    answers_ui(context, *result);
    if (wide && !context.figure)  // ends where the plots at its left do, or the window
      matrix_ui(context, result,
                std::min(height + widgets::em(kAxis), room.y) - ImGui::GetCursorPosY(), 1);
    else
      matrix_ui(context, result, height, result->first_sampled ? 0.62F : 1);
    ImGui::EndChild();
  }

 private:
  static constexpr int kPlots = 3;
  static constexpr std::int64_t kFewLayers = 4;
  static constexpr float kAxis = 3;  // em, of a plot with its numbers
  // One token lies at one place: the lowest plot numbers them.
  static constexpr ImPlotAxisFlags kAboveOthers =
      ImPlotAxisFlags_NoHighlight | ImPlotAxisFlags_NoTickLabels;

  // Of the plots with their headings, one above the other.
  static float plots_height(const DrawContext& context, float room) {
    return kPlots * (plot_height(context, room / kPlots - ImGui::GetTextLineHeightWithSpacing()) +
                     ImGui::GetTextLineHeightWithSpacing());
  }

  static void head_ui(DrawContext& context, const Drifts& result) {
    const Place& place = result.question.place;
    std::vector<widgets::Chip> chips;
    if (result) {
      const DecodeDrift& drift = *result;
      chips.push_back({fmt::format("perplexity {:.2f}", std::exp(drift.mean_nll())), 0,
                       "e to the mean loss of all tokens but the first, by the model as it ran."});
      if (drift.against_dense()) {
        chips.push_back({fmt::format("dense {:.2f}", std::exp(drift.mean_dense_nll())), 0,
                         "The same by the dense model on the same tokens."});
        chips.push_back({fmt::format("same next token {}", share_text(drift.agreement(0))), 0,
                         "Positions after which both find the same token most probable."});
      }
    }
    for (widgets::Chip& chip : trace_chips(context, place)) chips.push_back(std::move(chip));
    const trace::TraceInfo& info = place.info();
    const trace::RunInfo* run = info.closed_loop_run();
    const bool closed = info.mode == trace::LoopMode::ClosedLoop;
    widgets::figure_head_ui(
        context.palette, context.figure, "Drift from the dense model",
        run != nullptr ? run->method
        : closed       ? "a method that is lost"
                       : "the dense model alone",
        fmt::format("{}  \u00B7  {}  \u00B7  {} tokens", place.trace->name,
                    state::readable_name(info.model.name), format_count(info.num_tokens)),
        chips);
  }

  static void capture_button_ui(DrawContext& context) {
    if (ImGui::Button("Capture a closed loop and its drift\u2026"))
      context.workspace.wanted_command = "capture.drift";
  }

  // On one line, without what ends it.
  static std::string text_of(const std::vector<analysis::AnswerToken>& answer) {
    constexpr int kMost = 40;  // characters
    std::string all, text;
    for (const analysis::AnswerToken& token : answer)
      if (!token.text.starts_with("<|")) all += token.text;
    int count = 0;
    for_each_code_point(trimmed(all, " \n"), [&](std::int32_t, std::string_view letter) {
      if (++count <= kMost) text += letter;
    });
    return printable(text) + (count > kMost ? "\u2026" : "");
  }

  // "The closed loop of snapkv 256"; in a figure the method stands above it.
  static std::string loop_words(const Place& place, bool figure) {
    const trace::RunInfo* ran = place.info().closed_loop_run();
    if (figure || ran == nullptr) return "The closed loop";
    const state::MethodChoice run = state::choice_of_run(*ran, *place.trace);
    return "The closed loop of " +
           state::readable_name(state::in_sentence(state::short_label(run)));
  }

  static std::string finding_of(const DecodeDrift& drift, const Place& place, bool figure) {
    const trace::TraceInfo& info = place.info();
    if (!drift.against_dense())
      return fmt::format(
          "The dense model's mean loss is {:.2f} nat{}. A closed loop, in which the model reads "
          "only what a method keeps, would stand beside it: this trace has none{}.",
          drift.mean_nll(), state::span_loss_words(drift, info),
          figure ? " (capture with --closed-loop SPEC --drift)" : "");
    const std::string text = fmt::format(
        "{} costs {:+.3f} nat a token ({:.3f}, the dense model {:.3f} on the same "
        "tokens){}. Next-token distributions are {:.2g} nat apart on average.",
        drift.first_sampled ? "It" : loop_words(place, figure),
        drift.mean_nll() - drift.mean_dense_nll(), drift.mean_nll(), drift.mean_dense_nll(),
        state::worst_words(drift, info), drift.mean_kl(0));
    if (!drift.first_sampled) return text;
    const std::string loop = loop_words(place, figure);
    if (!drift.first_divergent_step)
      return fmt::format("{} answers \u201C{}\u201D, as the dense model does. {}", loop,
                         text_of(drift.answer), text);
    return fmt::format("{} answers \u201C{}\u201D, the dense model \u201C{}\u201D. {}", loop,
                       text_of(drift.answer), text_of(drift.dense_answer), text);
  }

  static void legend(DrawContext& context, const DecodeDrift& drift) {
    using Shape = widgets::LegendItem::Shape;
    std::vector<widgets::LegendItem> items = {{drift.against_dense() ? "closed loop" : "dense",
                                               closed_color(context.palette), Shape::Line}};
    if (drift.against_dense()) {
      items.push_back({"dense", dense_color(context.palette), Shape::Line});
      items.push_back({"other next token", context.palette.miss, Shape::Dot});
    } else {
      items.push_back({drift.nll.size() <= kMostDots ? "one token" : "one token, when zoomed in",
                       closed_color(context.palette), Shape::Dot});
    }
    if (drift.first_sampled)
      items.push_back({"the answer begins", context.palette.current, Shape::Line});
    widgets::legend_ui(context.palette, items);
  }

  static void answer_mark_ui(DrawContext& context, const DecodeDrift& drift) {
    if (!drift.first_sampled) return;
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    const double x = *drift.first_sampled + 0.5;
    ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(x, limits.Y.Min),
                                       ImPlot::PlotToPixels(x, limits.Y.Max),
                                       context.palette.current, widgets::em(0.1F));
  }

  void look_at(const DecodeDrift& drift, const Place& place, bool figure) {
    found_ = finding_of(drift, place, figure);
    passages_ = state::passage_losses(drift, place.info());
  }

  // What 95 of 100 tokens lose at most: one that comes as a surprise would press the line to the floor.
  float most_of(const Drifts& result) {
    if (std::exchange(most_is_of_, result.key) == result.key) return most_;
    std::vector<float> losses = result->nll;
    most_ = 0;
    std::erase_if(losses, [](float loss) { return !std::isfinite(loss); });
    if (losses.empty()) return most_;
    const auto at = losses.begin() + static_cast<std::ptrdiff_t>((losses.size() - 1) * 95 / 100);
    std::ranges::nth_element(losses, at);
    return most_ = *at;
  }

  // Of the spans, above a plot.
  static float names_height() { return widgets::em(0.9F); }
  static float without_names(float height) {
    return height > 0 ? height - names_height() - ImGui::GetStyle().ItemSpacing.y : height;
  }

  void losses_ui(DrawContext& context, const Drifts& result, float below) {
    const float height = without_names(below);
    const DecodeDrift& drift = *result;
    const bool two = drift.against_dense();
    double high = 1;
    const auto count = [&](const auto& values) {
      for (const auto value : values)
        if (std::isfinite(value)) high = std::max(high, static_cast<double>(value));
    };
    count(drift.nll_mean);
    // Where two lines are compared the dots of single tokens would hide them.
    if (two)
      count(drift.dense_nll_mean);
    else
      high = std::max(high, double{most_of(result)});
    high *= 1.05;
    const auto above = std::ranges::count_if(
        drift.nll, [&](float loss) { return std::isfinite(loss) && loss > high; });
    heading_ui(context, "Loss",
               fmt::format("nat by token{} the last {}{}", two ? ", mean of" : "; line: mean of",
                           analysis::kMeanOf,
                           two || above == 0
                               ? ""
                               : fmt::format("; {} are above {:.1f}", format_count(above), high)));
    ImGui::Dummy({0, names_height()});
    const TickRoom room;
    if (!ImPlot::BeginPlot("##losses", {-1, plot_height(context, height)}, kPlotFlags)) return;
    ImPlot::SetupAxes("token position",
                      fitting("-log P (nat)", "nat", plot_height(context, height)),
                      ImPlotAxisFlags_NoHighlight, ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxesLimits(0, static_cast<double>(drift.nll.size()), 0, high,
                            loss_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    token_series_ui(drift.dense_nll, drift.dense_nll_mean, dense_color(context.palette), false,
                    !two);
    token_series_ui(drift.nll, drift.nll_mean, closed_color(context.palette), false, !two);
    answer_mark_ui(context, drift);
    if (!two) passages_ui(context);
    ImPlot::PopPlotClipRect();
    span_marks_ui(context, result.question.place, true);
    token_at(context, result);
    ImPlot::EndPlot();
  }

  // The mean loss of the passages that the finding names, as a level over their tokens.
  void passages_ui(DrawContext& context) const {
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    const float right = ImPlot::GetPlotPos().x + ImPlot::GetPlotSize().x;
    for (const auto& [span, loss] : passages_) {
      const ImVec2 from = ImPlot::PlotToPixels(span.begin, loss),
                   to = ImPlot::PlotToPixels(span.end, loss);
      draw->AddLine(from, to, context.palette.text, widgets::em(0.25F));
      const std::string words = fmt::format("{:.2f}", loss);
      const ImVec2 size = ImGui::CalcTextSize(words.c_str());
      const float gap = widgets::em(0.4F);
      const bool fits = to.x + gap + size.x < right;
      const ImVec2 at(fits ? to.x + gap : from.x - gap - size.x, to.y - size.y / 2);
      draw->AddRectFilled(at, {at.x + size.x, at.y + size.y},
                          widgets::with_alpha(context.palette.panel, 0.85F));
      draw->AddText(at, context.palette.text, words.c_str());
    }
  }

  // The lines of both models lie on each other; where one is higher is seen from their difference.
  void worse_ui(DrawContext& context, const Drifts& result, float below) {
    const float height = without_names(below);
    const DecodeDrift& drift = *result;
    heading_ui(context, "Closed loop less dense",
               fmt::format("loss in nat, mean of the last {}; above 0 the closed loop is worse",
                           analysis::kMeanOf));
    ImGui::Dummy({0, names_height()});
    const TickRoom room;
    if (!ImPlot::BeginPlot("##worse", {-1, plot_height(context, height)}, kPlotFlags)) return;
    const std::vector<double>& worse = drift.excess_mean;
    double low = 0, high = 0;
    for (const double value : worse) {
      if (!std::isfinite(value)) continue;
      low = std::min(low, value);
      high = std::max(high, value);
    }
    const double edge = 0.1 * std::max(high - low, 1e-3);
    ImPlot::SetupAxes(nullptr, fitting("difference (nat)", "nat", plot_height(context, height)),
                      kAboveOthers, ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxesLimits(0, static_cast<double>(worse.size()), low - edge, high + edge,
                            worse_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(limits.X.Min, 0),
                                       ImPlot::PlotToPixels(limits.X.Max, 0), context.palette.faint,
                                       widgets::em(0.08F));
    token_series_ui(drift.nll, worse, closed_color(context.palette), false, false);
    answer_mark_ui(context, drift);
    ImPlot::PopPlotClipRect();
    span_marks_ui(context, result.question.place, true);
    token_at(context, result);
    ImPlot::EndPlot();
  }

  void distances_ui(DrawContext& context, const Drifts& result, float height) {
    const DecodeDrift& drift = *result;
    heading_ui(context, "Next-token distribution", "KL(dense || closed loop), nat, log");
    const TickRoom room;
    const float rest = height > 0 ? height : ImGui::GetContentRegionAvail().y - 1;
    if (!ImPlot::BeginPlot("##kl", {-1, plot_height(context, rest)}, kPlotFlags)) return;
    const float most = *std::max_element(drift.kl.begin(), drift.kl.end());
    ImPlot::SetupAxes(nullptr, "KL (nat)", kAboveOthers, ImPlotAxisFlags_NoHighlight);
    ImPlot::SetupAxisScale(ImAxis_Y1, ImPlotScale_Log10);
    ImPlot::SetupAxesLimits(0, static_cast<double>(drift.kl.size()), 1e-5,
                            std::max(1e-2, 2 * double{most}), kl_fit_.condition(result.key));
    ImPlot::SetupAxisFormat(ImAxis_X1, format_token_tick);
    ImPlot::SetupFinish();
    ImPlot::PushPlotClipRect();
    token_series_ui(drift.kl, drift.kl_mean, closed_color(context.palette), true);
    ImDrawList* draw = ImPlot::GetPlotDrawList();
    for (std::size_t t = 0; t < drift.kl.size(); ++t)
      if (drift.agrees[t] == 0 && drift.kl[t] > 0)
        draw->AddCircleFilled(ImPlot::PlotToPixels(static_cast<double>(t), drift.kl[t]),
                              widgets::em(0.2F), context.palette.miss);
    answer_mark_ui(context, drift);
    ImPlot::PopPlotClipRect();
    span_edges_ui(context, result.question.place);
    token_at(context, result);
    ImPlot::EndPlot();
  }

  static void token_at(DrawContext& context, const Drifts& result) {
    if (context.figure || !ImPlot::IsPlotHovered()) return;
    const DecodeDrift& drift = *result;
    const double x = std::round(ImPlot::GetPlotMousePos().x);
    if (x < 0 || x >= static_cast<double>(drift.nll.size())) return;
    const auto position = static_cast<std::int32_t>(x);
    const auto t = static_cast<std::size_t>(position);
    const Place& place = result.question.place;
    std::string text =
        fmt::format("{}\nloss {:.4g} nat", token_line(place, position), drift.nll[t]);
    if (drift.against_dense())
      text += fmt::format(", dense {:.4g}\nnext token: KL {:.4g} nat, {}", drift.dense_nll[t],
                          drift.kl[t], drift.agrees[t] != 0 ? "the same" : "another one");
    context.workspace.pointer.at(place, position);
    widgets::tooltip("%s", text.c_str());
    if (plot_clicked() && !result.stale)
      context.workspace.cursor.set_chunk(place.info().chunk_of_token(position));
  }

  // The map takes a part of what its heading leaves of the height.
  void matrix_ui(DrawContext& context, const Drifts& result, float height, float part) {
    const float from = ImGui::GetCursorPosY();
    const std::string& rows = context.workspace.option(kView, "rows");
    const analysis::Matrix& matrix = state::drift_matrix(*result, rows);
    const Place& place = result.question.place;
    heading_ui(context, rows == "k" ? "Keys" : "Queries",
               "distance from dense, relative to the norm; blank: equal");
    ColorRange range;
    range.low = 1e-3;
    range.high = 1;
    option_ui(context, kView, "rows", "", widgets::em(6));
    widgets::color_scale_ui(context.palette, widgets::sequential_color, "0.001", "1 and more",
                            "relative distance (log)", widgets::em(9));
    MapPlotSpec spec;
    spec.id = "##drift";
    spec.x_label = state::chunk_axis(place.info());
    spec.y_label = "layer";
    spec.rows = static_cast<double>(matrix.rows);
    spec.cols = static_cast<double>(matrix.cols);
    spec.row_ticks = true;
    spec.row_numbers = &place.info().layers;
    const float left = height - (ImGui::GetCursorPosY() - from);
    float high = left * part;
    // Few layers are a strip.
    if (!context.figure)
      high = std::min(high, static_cast<float>(matrix.rows) * widgets::em(4) + widgets::em(4));
    spec.size = {-1, plot_height(context, high)};
    spec.content_key = result.key + rows + range.key();
    // The whole of a row is before its first query: nothing lies beyond a diagonal.
    const CellSize cell{1, 1, static_cast<double>(matrix.cols)};
    spec.fill = [&](const widgets::MapWindow& window, std::vector<ImU32>& pixels) {
      fill_matrix(context.palette, range, matrix, cell, window, pixels);
    };
    const TickRoom room;
    const auto hit = map_plot_ui(context, spec, texture_, [&] { decode_edge_ui(context, place); });
    if (!hit) return;
    const auto row = static_cast<std::int64_t>(hit->row),
               chunk = static_cast<std::int64_t>(hit->col);
    const int layer = place.info().layers[static_cast<std::size_t>(row)];
    Place there = place;
    there.layer = layer;
    there.chunk = static_cast<int>(chunk);
    context.workspace.pointer.at({.place = there});
    widgets::tooltip("layer %d, chunk %lld\nrelative distance %.4g", layer,
                     static_cast<long long>(chunk), double{matrix.at(row, chunk)});
    if (!hit->clicked || result.stale) return;
    context.workspace.cursor.set_layer(layer);
    context.workspace.cursor.set_chunk(static_cast<int>(chunk));
  }

  // From here on a column is a decoded token.
  static void decode_edge_ui(DrawContext& context, const Place& place) {
    const std::vector<trace::ChunkInfo>& chunks = place.info().chunks;
    const auto first = std::ranges::find(chunks, trace::Phase::Decode, &trace::ChunkInfo::phase);
    if (first == chunks.end() || first == chunks.begin()) return;
    const auto x = static_cast<double>(first - chunks.begin());
    const ImPlotRect limits = ImPlot::GetPlotLimits();
    ImPlot::GetPlotDrawList()->AddLine(ImPlot::PlotToPixels(x, limits.Y.Min),
                                       ImPlot::PlotToPixels(x, limits.Y.Max), context.palette.text,
                                       widgets::em(0.1F));
  }

  static void answers_ui(DrawContext& context, const DecodeDrift& drift) {
    if (!drift.first_sampled) return;
    if (!drift.first_divergent_step) {
      heading_ui(context, "Answers", "");
      answer_ui(context, "closed loop and dense, the same", closed_color(context.palette),
                drift.answer, drift, context.palette.text);
      return;
    }
    heading_ui(context, "Answers", "the closed loop's is marked from where it parts");
    answer_ui(context, "closed loop", closed_color(context.palette), drift.answer, drift,
              context.palette.miss);
    answer_ui(context, "dense", dense_color(context.palette), drift.dense_answer, drift,
              context.palette.text);
  }

  static void answer_ui(DrawContext& context, const char* whose, ImU32 color,
                        const std::vector<analysis::AnswerToken>& tokens, const DecodeDrift& drift,
                        ImU32 color_of_other) {
    const auto split = static_cast<std::size_t>(
        drift.first_divergent_step.value_or(static_cast<std::int64_t>(tokens.size())));
    std::string same, other;
    for (std::size_t i = 0; i < tokens.size(); ++i) (i < split ? same : other) += tokens[i].text;
    widgets::text_colored(widgets::ink_of(context.palette, color), whose);
    // A model begins with empty lines, which say nothing.
    for (std::string* text : {&same, &other}) {
      text->erase(0, std::min(text->find_first_not_of(" \n"), text->size()));
      if (!text->empty()) break;
    }
    const widgets::FontScope large(widgets::Type::Title);
    same = printable(same);
    other = printable(other);
    const float width = ImGui::CalcTextSize((same + other).c_str()).x;
    const bool in_a_line = width < ImGui::GetContentRegionAvail().x;
    if (!same.empty()) widgets::text_wrapped(context.palette.text, same);
    if (!same.empty() && !other.empty() && in_a_line) ImGui::SameLine(0, 0);
    if (!other.empty()) widgets::text_wrapped(color_of_other, other);
  }

  state::LastAnswer<DecodeDriftQuestion> shown_;
  widgets::MapTexture texture_;
  std::string found_, found_for_;             // the finding, and the answer that it is of
  std::vector<state::PassageLoss> passages_;  // of the same
  ContentFit loss_fit_, worse_fit_, kl_fit_;
  std::string most_is_of_;  // the answer whose most_of() this is
  float most_ = 0;
};

}  // namespace

std::unique_ptr<Panel> make_decode_drift_panel() { return std::make_unique<DecodeDriftPanel>(); }

}  // namespace kvloupe::panels
