#include "app/state/questions/how_it_ran/decode_drift.h"
#include "app/state/span_choices.h"

#include "app/state/token_text.h"
#include "app/state/view.h"
#include "app/state/workspace.h"
#include "core/base/units.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace kvloupe::state {
namespace {

constexpr const char* kView = "decode_drift";
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

DecodeDriftQuestion question_of(const Workspace& workspace) { return {workspace.place()}; }

// A row a token.
Table table(Workspace& workspace) {
  Table table{{"position", "chunk", "phase", "token_id", "nll", "dense_nll", "kl", "agrees"}, {}};
  const auto result = workspace.ask(question_of(workspace));
  if (!result) return table;
  const analysis::DecodeDrift& drift = *result;
  const Place& place = result.question.place;
  const std::vector<std::int32_t> ids = place.trace->session->reader().token_ids();
  const auto& chunks = place.info().chunks;
  for (std::size_t c = 0; c < chunks.size(); ++c) {
    for (std::int32_t t = chunks[c].begin; t < chunks[c].end(); ++t) {
      const auto i = static_cast<std::size_t>(t);
      const bool dense = drift.against_dense();
      table.rows.push_back({t, c, trace::name_of(chunks[c].phase), ids[i], drift.nll[i],
                            dense ? drift.dense_nll[i] : kUnknown, dense ? drift.kl[i] : kUnknown,
                            dense ? Cell(drift.agrees[i] != 0) : Cell()});
    }
  }
  return table;
}

Array array(Workspace& workspace) {
  const auto result = workspace.ask(question_of(workspace));
  if (!result || !result->against_dense()) return {};
  const analysis::Matrix& rows = drift_matrix(*result, workspace.option(kView, "rows"));
  return array_of("<f4", {rows.rows, rows.cols}, rows.values);
}

// A landmark that is short against the text.
bool is_passage(const trace::TokenSpan& span) {
  return is_landmark(span) && span.end - span.begin <= 4 * analysis::kMeanOf;
}

}  // namespace

std::string DecodeDriftQuestion::obstacle() const {
  if (place.empty() || place.info().has_losses) return missing(place);
  return "This trace holds no losses: capture with --closed-loop SPEC --drift, or with --store "
         "qkv,lse,loss for the dense model's alone";
}

DecodeDriftQuestion::Answer DecodeDriftQuestion::work(Steps& /*steps*/) const {
  return analysis::decode_drift(place.trace->session->reader());
}

std::uint64_t DecodeDriftQuestion::bytes(const Answer& answer) {
  std::uint64_t sum = sizeof(answer) + answer.nll.size() * 37 + (answer.q.values.size() * 8);
  for (const auto* tokens : {&answer.answer, &answer.dense_answer})
    for (const analysis::AnswerToken& token : *tokens) sum += sizeof(token) + token.text.size();
  return sum;
}

std::string worst_words(const analysis::DecodeDrift& drift, const trace::TraceInfo& info) {
  constexpr double kClearly = 0.02;  // nat
  std::int64_t at = -1;
  for (std::int64_t t = 0; t < std::ssize(drift.excess_mean); ++t) {
    const double worse = drift.excess_mean[static_cast<std::size_t>(t)];
    if (std::isfinite(worse) && (at < 0 || worse > drift.excess_mean[static_cast<std::size_t>(at)]))
      at = t;
  }
  if (at < 0 || drift.excess_mean[static_cast<std::size_t>(at)] < kClearly) return "";
  // The longest passage that the tokens of this mean touch.
  const trace::TokenSpan* near = nullptr;
  for (const trace::TokenSpan& span : info.spans) {
    if (!is_passage(span) || span.begin > at || span.end <= at + 1 - analysis::kMeanOf) continue;
    if (near == nullptr || span.end - span.begin > near->end - near->begin) near = &span;
  }
  return fmt::format(", most {}: {:+.2f} over {} tokens",
                     near != nullptr ? "at " + readable_name(near->name)
                                     : fmt::format("at token {}", format_count(at)),
                     drift.excess_mean[static_cast<std::size_t>(at)], analysis::kMeanOf);
}

std::vector<PassageLoss> passage_losses(const analysis::DecodeDrift& drift,
                                        const trace::TraceInfo& info) {
  constexpr std::size_t kMost = 2, kLookedAt = 100;  // a hostile file may have any number
  std::vector<trace::TokenSpan> spans;
  for (const trace::TokenSpan& span : info.spans)
    if (is_passage(span) && spans.size() < kLookedAt) spans.push_back(span);
  const auto is_part = [&](const trace::TokenSpan& span) {
    return std::ranges::any_of(spans, [&](const trace::TokenSpan& other) {
      return other.begin <= span.begin && span.end <= other.end &&
             other.end - other.begin > span.end - span.begin;
    });
  };
  std::vector<PassageLoss> passages;
  for (const trace::TokenSpan& span : spans) {
    if (is_part(span)) continue;
    double sum = 0;
    int tokens = 0;
    for (std::int32_t t = span.begin; t < std::min<std::int64_t>(span.end, std::ssize(drift.nll));
         ++t)
      if (const double loss = drift.nll[static_cast<std::size_t>(t)]; std::isfinite(loss)) {
        sum += loss;
        ++tokens;
      }
    if (tokens > 0) passages.push_back({span, sum / tokens});
  }
  std::ranges::sort(passages, {}, [](const PassageLoss& one) { return one.span.begin; });
  passages.resize(std::min(passages.size(), kMost));
  return passages;
}

std::string span_loss_words(const analysis::DecodeDrift& drift, const trace::TraceInfo& info) {
  std::string words;
  for (const auto& [span, loss] : passage_losses(drift, info))
    words += fmt::format(", {:.2f} on {}", loss, readable_name(span.name));
  return words;
}

const analysis::Matrix& drift_matrix(const analysis::DecodeDrift& drift, const std::string& rows) {
  return rows == "k" ? drift.k : drift.q;
}

ViewInfo decode_drift_view() {
  return ViewInfo{kView, "Decode drift",
                  "how far a closed loop goes from the dense model on the same tokens",
                  "Next tokens"}
      .follow(At::Chunk)
      .take(0)
      .with({{"rows",
              {"q", "k"},
              "the rows whose distance is drawn by layer and chunk",
              {"queries", "keys"}}})
      .tabulate_all_chunks()
      .draw(problem_with<question_of>, table, array);
}

}  // namespace kvloupe::state
