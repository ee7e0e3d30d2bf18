#include "app/shell/new_trace/growing_trace.h"

#include "app/shell/new_trace/capture_request.h"
#include "core/base/error.h"
#include "core/trace/trace_reader.h"

#include <filesystem>

namespace kvloupe::shell {
namespace {

// Every reading makes the views compute anew, beside the model that runs.
constexpr double kBetweenReadings = 1.5;

}  // namespace

void GrowingTrace::begin(const std::string& output, const std::string& span) {
  span_ = span;
  std::error_code ignored;
  output_ = std::filesystem::absolute(output, ignored).string();
  part_ = part_of(output_);
  opened_ = false;
  chunks_ = 0;
  next_ = 0;
  ++round_;
}

void GrowingTrace::tick(double now) {
  if (const state::TraceTab* tab = workspace_.traces.find(part_); tab != nullptr)
    opened_ |= tab->state == state::ResultState::Ready;
  // Not while the views still compute what the last reading brought.
  if (part_.empty() || now < next_ || workspace_.answers.busy()) return;
  next_ = now + kBetweenReadings;
  workspace_.answers.jobs().submit<int>(
      Lane::TraceIo, "chunks recorded", "Looking for new chunks",
      [part = part_](const WorkContext&) {
        return std::make_shared<const int>(
            static_cast<int>(trace::TraceReader(part).info().chunks.size()));
      },
      [this, round = round_](std::shared_ptr<const int> chunks) {
        if (round == round_ && !part_.empty()) found(*chunks);
      },
      // Not there yet, or no longer: the capture itself says what is wrong.
      [](const Error&) {});
}

void GrowingTrace::watch_span() {
  if (span_.empty()) return;
  const state::TraceTab* tab = workspace_.traces.ready();
  if (tab == nullptr || (tab->path != part_ && tab->path != output_)) return;
  const state::Place& place = workspace_.place();
  if (place.has_keys()) {  // the user was faster
    span_.clear();
    return;
  }
  for (const trace::TokenSpan& span : place.info().spans) {
    if (span.name != span_ || span.end > place.info().num_tokens) continue;
    workspace_.cursor.set_keys(span.begin, span.end);
    span_.clear();
    return;
  }
}

void GrowingTrace::found(int chunks) {
  if (chunks <= (opened_ ? chunks_ : 0)) return;
  if (opened_)
    workspace_.traces.grown(part_, part_);
  else if (workspace_.traces.find(part_) == nullptr)
    workspace_.traces.open(part_);  // again where it failed, as in the middle of a write
  else
    return;
  chunks_ = chunks;
}

void GrowingTrace::end(bool there) {
  // A tab that still opens goes on under the new name. One that was shown and closed stays closed. A tab of the file that
  // was replaced shows the new one.
  if (there && !workspace_.traces.grown(part_, output_)) {
    workspace_.traces.grown(output_, output_);
    if (!opened_) workspace_.traces.open(output_);
  }
  part_.clear();
}

}  // namespace kvloupe::shell
