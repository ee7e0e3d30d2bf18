// The view decode_drift: how far a closed loop went from the dense model on the same tokens.
#pragma once

#include "app/state/question_at.h"
#include "core/analysis/decode_drift.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kvloupe::state {

struct DecodeDriftQuestion : OfPlace<At::Trace> {
  static constexpr const char* kName = "decode drift";
  static constexpr Lane kLane = Lane::TraceIo;
  using Answer = analysis::DecodeDrift;

  std::string title() const { return "Reading the statistics of next tokens"; }
  std::string obstacle() const;
  Answer work(Steps& steps) const;
  static std::uint64_t bytes(const Answer& answer);
};

// Where the closed loop is worst against the dense model: "; it is worst at needle, +0.37 nat over 32
// tokens". Empty where it is nowhere clearly worse.
std::string worst_words(const analysis::DecodeDrift& drift, const trace::TraceInfo& info);
// The mean loss of the first two spans that people look for, in the order of the text; parts of another span
// aside.
struct PassageLoss {
  trace::TokenSpan span;
  double loss = 0;  // nat by token
};
std::vector<PassageLoss> passage_losses(const analysis::DecodeDrift& drift,
                                        const trace::TraceInfo& info);
// ", 3.12 on needle, 2.20 on question". Empty where there is none.
std::string span_loss_words(const analysis::DecodeDrift& drift, const trace::TraceInfo& info);
// Of the answer, the matrix that the option `rows` names.
const analysis::Matrix& drift_matrix(const analysis::DecodeDrift& drift, const std::string& rows);

}  // namespace kvloupe::state
