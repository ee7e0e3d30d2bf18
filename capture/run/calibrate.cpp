#include "capture/run/calibrate.h"

#include "capture/model/decoder.h"
#include "capture/model/model.h"
#include "capture/model/model_file.h"
#include "capture/run/estimate.h"
#include "capture/tasks/corpus.h"
#include "core/attention/attention.h"
#include "core/base/error.h"
#include "core/base/file_lock.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/seconds_since.h"
#include "core/base/sha256.h"
#include "core/base/units.h"
#include "core/device/torch_device.h"
#include "core/selection/lanes/basis.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <string>
#include <system_error>
#include <utility>

namespace kvloupe::capture {
namespace {

namespace fs = std::filesystem;
using trace::BasisKind;

constexpr int kChunkSize = 256;
// Of a larger file the beginning is read.
constexpr std::size_t kMaxTextBytes = std::size_t{64} << 20;
constexpr const char* kDefaultSource = "persuasion";

struct Prose {
  std::string source;
  std::vector<std::vector<std::int32_t>> sequences;
};

std::string read_text(const fs::path& path) {
  std::error_code code;
  std::ifstream stream(path, std::ios::binary);
  std::string text;
  if (stream && !fs::is_directory(path, code)) {
    text.resize(kMaxTextBytes);
    stream.read(text.data(), static_cast<std::streamsize>(text.size()));
    text.resize(static_cast<std::size_t>(stream.gcount()));
  }
  if (text.empty()) {
    throw input_error("cannot calibrate on " + path.string(), "it cannot be read, or it is empty",
                      "name a text file");
  }
  return text;
}

// Sequences that begin evenly spaced, and do not overlap.
std::vector<std::vector<std::int32_t>> spread(const std::vector<std::int32_t>& ids,
                                              std::int64_t count, std::int64_t length) {
  const auto total = static_cast<std::int64_t>(ids.size());
  std::vector<std::vector<std::int32_t>> sequences;
  for (std::int64_t i = 0; i < count; ++i) {
    const auto begin = ids.begin() + i * total / count;
    sequences.emplace_back(begin, begin + length);
  }
  return sequences;
}

Prose read_prose(const LoadedModel& model, const CalibrationText& text) {
  if (text.length > model.context_length) {
    throw input_error(
        fmt::format("cannot calibrate on sequences of {} tokens", format_count(text.length)),
        fmt::format("the model's context is {}", format_count(model.context_length)),
        "give a smaller --length");
  }
  const bool given = text.corpus.has_value();
  const std::vector<std::int32_t> ids = model.tokenizer.encode(
      given ? read_text(*text.corpus) : austen_corpus().calibration_novel.text,
      SpecialTokens::Literal);
  Prose prose;
  prose.source = given ? text.corpus->filename().string() : kDefaultSource;
  const auto total = static_cast<std::int64_t>(ids.size());
  const std::int64_t fitting = total / text.length;
  if (fitting < text.sequences) {
    throw input_error(fmt::format("cannot calibrate on {} sequences of {} tokens", text.sequences,
                                  format_count(text.length)),
                      fmt::format("{} has {} tokens", prose.source, format_count(total)),
                      fitting > 0
                          ? fmt::format("give --sequences {} or fewer, or a longer text", fitting)
                          : fmt::format("give --sequences 1 --length {} or less, or a longer text",
                                        std::max<std::int64_t>(total, 1)));
  }
  prose.sequences = spread(ids, text.sequences, text.length);
  return prose;
}

// Attends densely and gathers what passes by.
class GatheringAttention final : public AttentionHook {
 public:
  explicit GatheringAttention(const std::vector<BasisKind>& kinds) {
    for (const BasisKind kind : kinds) fits_.emplace_back(kind);
  }
  at::Tensor attend(const AttentionCall& call) override {
    for (selection::BasisFit& fit : fits_)
      fit.add(call.layer, call.q, call.k.slice(1, call.past_len), call.v.slice(1, call.past_len));
    return attention::dense_chunk_attention(call.q, call.k, call.v, call.softmax, false).output;
  }
  const std::vector<selection::BasisFit>& fits() const { return fits_; }

 private:
  std::vector<selection::BasisFit> fits_;
};

void run_over(const std::shared_ptr<const LoadedModel>& model, const Prose& prose,
              AttentionHook& hook, const WorkContext& context) {
  const auto begin = std::chrono::steady_clock::now();
  const auto length = static_cast<std::int64_t>(prose.sequences.front().size());
  const std::int64_t total = length * static_cast<std::int64_t>(prose.sequences.size());
  std::int64_t done = 0;
  for (const std::vector<std::int32_t>& ids : prose.sequences) {
    Decoder decoder(model, {length, true});
    for (const trace::ChunkInfo& chunk : plan_chunks(length, 0, kChunkSize)) {
      context.cancel.throw_if_cancelled();
      decoder.forward(std::span(ids).subspan(chunk.begin, chunk.length), hook, false);
      done += chunk.length;
      context.report(done, total, fmt::format("{:.0f} tokens/s", done / seconds_since(begin)));
    }
  }
}

void describe_source(const LoadedModel& model, const Prose& prose, trace::Basis& basis) {
  Sha256 hash;
  for (const std::vector<std::int32_t>& ids : prose.sequences) {
    hash.update(model.tokenizer.decode(ids));
    const auto shingles = trace::shingles_of(ids);
    basis.shingles.insert(basis.shingles.end(), shingles.begin(), shingles.end());
    basis.num_tokens += static_cast<std::int64_t>(ids.size());
  }
  std::sort(basis.shingles.begin(), basis.shingles.end());
  basis.shingles.erase(std::unique(basis.shingles.begin(), basis.shingles.end()),
                       basis.shingles.end());
  basis.source = prose.source;
  basis.source_hash = hash.hex_digest();
}

// One program at a time makes a model's bases; who waited finds them made.
FileLock calibration_lock(const fs::path& path, const CancelToken& cancel) {
  FileLock lock(path);
  if (!lock.held()) log::info("waiting for another calibration of the model");
  while (!lock.wait(std::chrono::milliseconds(50))) cancel.throw_if_cancelled();
  return lock;
}

void create_cache_folder(const fs::path& folder) {
  std::error_code code;
  fs::create_directories(folder, code);
  if (code) {
    throw input_error("cannot keep a calibrated basis",
                      fmt::format("{}: {}", folder.string(), code.message()),
                      "set XDG_CACHE_HOME to a folder that you own");
  }
}

constexpr BasisKind kAllKinds[] = {BasisKind::Loki, BasisKind::Aqua};

// There is none that serves: also where an earlier version made it, without directions of values.
bool lacks_basis(BasisKind kind, const std::string& model_hash, bool of_values) {
  const fs::path path = selection::auto_basis_path(kind, model_hash);
  std::error_code code;
  if (!fs::exists(path, code)) return true;
  if (!of_values || kind != BasisKind::Aqua) return false;
  const auto layers = trace::read_basis(path).layers;
  return std::any_of(layers.begin(), layers.end(),
                     [](const auto& layer) { return layer.second.value_vectors.empty(); });
}

std::vector<BasisKind> missing_kinds(const std::string& model_hash, bool of_values) {
  std::vector<BasisKind> missing;
  for (const BasisKind kind : kAllKinds)
    if (lacks_basis(kind, model_hash, of_values)) missing.push_back(kind);
  return missing;
}

// In single precision on the host, whatever a capture computes with: the basis is kept for all that follow.
void make_auto_bases(const std::string& model_hash, bool of_values, const WorkContext& context) {
  const fs::path folder = selection::auto_basis_path(BasisKind::Loki, model_hash).parent_path();
  create_cache_folder(folder);
  const FileLock lock = calibration_lock(folder / ".lock", context.cancel);
  const std::vector<BasisKind> kinds = missing_kinds(model_hash, of_values);
  if (kinds.empty()) return;
  log::info("calibrating this model's bases on Persuasion, once; a minute or two on two cores");
  for (const trace::Basis& basis : calibrate(load_model("smollm2"), kinds, {}, context)) {
    const fs::path path = selection::auto_basis_path(basis.kind, model_hash);
    trace::write_basis(path, basis);
    log::info("kept in {}", path.string());
  }
}

bool slices_values(const selection::MethodSpec& spec) {
  return spec.traits().lanes && spec.traits().lanes->slices_values;
}

bool needs_calibration(const selection::MethodSpec& spec, const trace::ModelInfo& model) {
  const auto& basis = spec.traits().basis;
  if (!basis || !basis->is_auto() || model.file_hash.empty()) return false;
  if (!lacks_basis(basis->kind, model.file_hash, slices_values(spec))) return false;
  // Read once: the window asks again and again for traces of other models.
  static const std::string bundled = bundled_model_hash();
  return model.file_hash == bundled;
}

}  // namespace

std::vector<trace::Basis> calibrate(const std::shared_ptr<const LoadedModel>& model,
                                    const std::vector<BasisKind>& kinds,
                                    const CalibrationText& text, const WorkContext& context) {
  const Prose prose = read_prose(*model, text);
  GatheringAttention gathering(kinds);
  run_over(model, prose, gathering, context);
  std::vector<trace::Basis> bases;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    trace::Basis basis;
    basis.kind = kinds[i];
    basis.model_name = model->info.name;
    basis.model_hash = model->info.file_hash;
    basis.num_kv_heads = model->info.num_kv_heads;
    basis.head_dim = model->info.head_dim;
    basis.layers = gathering.fits()[i].finish();
    describe_source(*model, prose, basis);
    bases.push_back(std::move(basis));
  }
  return bases;
}

std::vector<WrittenBasis> run_calibration(const CalibrateOptions& options,
                                          const WorkContext& context) {
  InputFiles inputs = files_of_model(options.model);
  if (options.text.corpus) inputs.push_back(*options.text.corpus);
  if (!options.output.empty())
    check_calibration_file(options.output, "a basis", inputs, options.force);
  const auto model =
      load_model(options.model, ComputeType::Fp32, device::torch_device(options.device));
  std::vector<fs::path> paths;
  for (const BasisKind kind : options.kinds) {
    paths.push_back(options.output);
    if (!options.output.empty()) continue;
    paths.back() = selection::auto_basis_path(kind, model->info.file_hash);
    create_cache_folder(paths.back().parent_path());
    check_output_file(paths.back(), "a basis", "a calibration", inputs, options.force);
  }
  std::vector<trace::Basis> bases = calibrate(model, options.kinds, options.text, context);
  std::vector<WrittenBasis> written;
  for (std::size_t i = 0; i < bases.size(); ++i) {
    trace::write_basis(paths[i], bases[i]);
    written.push_back({paths[i], std::move(bases[i])});
  }
  return written;
}

selection::BasisMaker basis_maker() {
  return {needs_calibration, [](const selection::MethodSpec& spec, const trace::ModelInfo& model,
                                const WorkContext& context) {
            if (!needs_calibration(spec, model)) return;
            make_auto_bases(model.file_hash, slices_values(spec), context);
          }};
}

}  // namespace kvloupe::capture
