// A thorough look at a trace: structure, tokens, and then every layer and run.
#include "core/trace/check/validate.h"

#include "core/base/error.h"
#include "core/base/units.h"
#include "core/trace/decoded_prompt.h"
#include "core/trace/hdf5/hdf5.h"
#include "core/trace/load/trace_load.h"

#include <fmt/format.h>

#include <algorithm>

namespace kvloupe::trace {
namespace {

void check_ids(const TraceReader& reader, Validation& found) {
  const auto ids = reader.token_ids();
  const auto& info = reader.info();
  const auto negative = std::find_if(ids.begin(), ids.end(), [](auto id) { return id < 0; });
  if (negative != ids.end()) {
    found.defects.push_back(
        fmt::format("token {} has the id {}", negative - ids.begin(), *negative));
  }
  // A new token is a decode chunk once it has been fed; the last sampled one may not have been.
  if (!info.complete || info.generated.empty()) return;
  std::size_t step = 0;
  for (std::int32_t t = answer_begin(info); t < info.num_tokens; ++t, ++step) {
    if (step >= info.generated.size() || info.generated[step] != ids[t]) {
      found.notes.push_back(
          fmt::format("token {} was decoded but is not the generated token {} of {}", t, step,
                      info.generated.size()));
      return;
    }
  }
}

void check_decode_chunks(const TraceInfo& info, Validation& found) {
  for (std::size_t c = 0; c < info.chunks.size(); ++c) {
    const auto& chunk = info.chunks[c];
    if (chunk.phase == Phase::Prefill || chunk.length == 1) continue;
    found.defects.push_back(
        fmt::format("chunk {} is a decoded token but has length {}", c, chunk.length));
  }
}

void check_text_size(const h5::Handle& file, const LoadedTrace& trace, Validation& found) {
  if (!trace.has_texts || !trace.info.complete) return;
  const auto tokens = static_cast<std::uint64_t>(trace.info.num_tokens);
  const auto offsets =
      h5::Dataset::open(file.get(), "/tokens/text_offsets", h5::ValueClass::Integer, 1);
  const auto text = h5::Dataset::open(file.get(), "/tokens/text", h5::ValueClass::Integer, 1);
  const auto first = offsets.read_range<std::uint64_t>(0, 1).front();
  const auto last = offsets.read_range<std::uint64_t>(tokens, 1).front();
  if (first != 0) {
    found.defects.push_back(fmt::format("/tokens/text_offsets begins at {}", first));
  }
  if (last != text.dims().front()) {
    found.defects.push_back(fmt::format("/tokens/text has {} bytes where its offsets end at {}",
                                        text.dims().front(), last));
  }
}

void check_spans(const TraceInfo& info, Validation& found) {
  for (const auto& span : info.spans) {
    if (span.end <= info.num_tokens || !info.complete) continue;
    found.defects.push_back(fmt::format("the span {} is [{}, {}) of {} tokens", span.name,
                                        span.begin, span.end, info.num_tokens));
  }
}

void note_spare_room(const LoadedTrace& trace, Validation& found) {
  if (!trace.info.complete) return;
  for (const auto& [layer, sources] : trace.layers) {
    const std::int64_t used = trace.info.num_queries();
    if (!sources.q || sources.q.dims()[1] == static_cast<hsize_t>(used)) continue;
    found.notes.push_back(fmt::format("layer {} has room for {} queries, of which {} are used",
                                      layer, sources.q.dims()[1], used));
  }
}

// What the file says about itself.
void check_structure(const std::filesystem::path& path, Validation& found) {
  const h5::Lock lock;
  const LoadBudget budget(bytes_on_disk(path.string()));
  const h5::Handle file = h5::open_file_for_reading(path.string());
  const LoadedTrace trace = load_trace(file.get(), path.string());
  const auto& info = trace.info;
  found.defects.insert(found.defects.end(), info.warnings.begin(), info.warnings.end());
  if (!info.complete) {
    found.notes.push_back(fmt::format("incomplete: {} chunks ({} tokens) are done",
                                      info.chunks.size(), format_count(info.num_tokens)));
  }
  check_decode_chunks(info, found);
  check_text_size(file, trace, found);
  check_spans(info, found);
  note_spare_room(trace, found);
}

}  // namespace

void check_guarded(Validation& found, const std::function<void()>& check) {
  try {
    check();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled) throw;
    found.defects.push_back(error.why());
  } catch (const h5::Defect& defect) {
    found.defects.emplace_back(defect.what());
  }
}

Validation check_trace(const std::filesystem::path& path, const WorkContext& context) {
  Validation found;
  // Each part is read once. A file that points many times to the same bytes exceeds the budget.
  const LoadBudget budget(bytes_on_disk(path.string()), LoadBudget::Scope::Work);
  std::optional<TraceReader> reader;
  try {
    reader.emplace(path);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Cancelled) throw;
    found.defects.push_back(fmt::format("{}: {}", error.what_failed(), error.why()));
    return found;
  }
  check_guarded(found, [&] { check_structure(path, found); });
  // The reader adds only what it has to say about the sidecar, which is another file.
  const auto& info = reader->info();
  for (const auto& warning : info.warnings) {
    const bool known =
        std::find(found.defects.begin(), found.defects.end(), warning) != found.defects.end();
    if (!known) found.notes.push_back(warning);
  }
  if (info.mode == LoopMode::ClosedLoop && info.closed_loop_run() == nullptr)
    found.notes.emplace_back("the run of the method that the model ran with is not there");
  check_guarded(found, [&] { check_ids(*reader, found); });
  check_guarded(found, [&] { check_losses(*reader, found); });
  check_guarded(found, [&] { check_probe(*reader, found); });
  check_guarded(found, [&] { check_next_tokens(*reader, found); });
  const auto total = static_cast<std::int64_t>(info.layers.size() + info.runs.size());
  std::int64_t done = 0;
  for (const int layer : info.layers) {
    context.report(done++, total, "layers");
    check_guarded(found, [&] { check_layer(*reader, layer, context, found); });
  }
  for (const auto& run : info.runs) {
    context.cancel.throw_if_cancelled();
    context.report(done++, total, "runs");
    check_guarded(found, [&] { check_run(*reader, run, found); });
  }
  context.report(total, total, "runs");
  return found;
}

std::vector<std::string> validate_trace(const std::filesystem::path& path) {
  return check_trace(path).defects;
}

}  // namespace kvloupe::trace
