#include "core/trace/results/results_file.h"

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/trace/fields/trace_names.h"
#include "core/trace/hdf5/compound.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace kvloupe::trace {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kMajor = "2.";
constexpr std::uint64_t kMostSamples = 1 << 24;
constexpr const char* kRemedy = "name a file that python -m kvloupe eval wrote";

// Stored one after the other, with the positions at which they begin.
std::vector<std::string> texts_of(hid_t file, const std::string& path, std::uint64_t count) {
  const auto offsets = h5::Dataset::open(file, path + "_offsets", h5::ValueClass::Integer, 1)
                           .read_range<std::int64_t>(0, count + 1);
  const auto dataset = h5::Dataset::open(file, path, h5::ValueClass::Integer, 1);
  const auto size = static_cast<std::int64_t>(dataset.dims().front());
  if (offsets.front() != 0 || offsets.back() != size ||
      !std::is_sorted(offsets.begin(), offsets.end()))
    throw h5::Defect(fmt::format("{}_offsets do not fit their text", path));
  const auto bytes = dataset.read_range<std::uint8_t>(0, dataset.dims().front());
  std::vector<std::string> texts(count);
  for (std::size_t i = 0; i < count; ++i)
    texts[i].assign(bytes.begin() + offsets[i], bytes.begin() + offsets[i + 1]);
  return texts;
}

template <typename T>
std::vector<T> numbers_of(hid_t file, const char* path, h5::ValueClass value_class,
                          std::uint64_t count) {
  const auto dataset = h5::Dataset::open(file, path, value_class, 1);
  if (dataset.dims().front() != count)
    throw h5::Defect(
        fmt::format("{} has {} entries for {} samples", path, dataset.dims().front(), count));
  return dataset.read_range<T>(0, count);
}

template <typename T, typename Values>
void fill(std::vector<ResultSample>& samples, T ResultSample::*member, Values&& values) {
  for (std::size_t i = 0; i < samples.size(); ++i) samples[i].*member = std::move(values[i]);
}

void load_asked(const h5::Dataset& dataset, std::vector<ResultSample>& samples) {
  const std::uint64_t count = samples.size();
  fill(samples, &ResultSample::task, h5::read_member_texts(dataset, "task", count));
  fill(samples, &ResultSample::method, h5::read_member_texts(dataset, "method", count));
  fill(samples, &ResultSample::id, h5::read_member_texts(dataset, "id", count));
  fill(samples, &ResultSample::length, h5::read_member_integers(dataset, "length", count));
  fill(samples, &ResultSample::seed, h5::read_member_integers(dataset, "seed", count));
  fill(samples, &ResultSample::budget, h5::read_member_integers(dataset, "budget", count));
  fill(samples, &ResultSample::depth, h5::read_member_floats(dataset, "depth", count));
  fill(samples, &ResultSample::score, h5::read_member_floats(dataset, "score", count));
  fill(samples, &ResultSample::seconds, h5::read_member_floats(dataset, "seconds", count));
}

void load_beside(hid_t file, std::vector<ResultSample>& samples) {
  const std::uint64_t count = samples.size();
  fill(samples, &ResultSample::sample, texts_of(file, "/texts/sample", count));
  fill(samples, &ResultSample::answer, texts_of(file, "/texts/answer", count));
  fill(samples, &ResultSample::expected, texts_of(file, "/texts/expected", count));
  fill(samples, &ResultSample::refused, texts_of(file, "/texts/refused", count));
  fill(samples, &ResultSample::trace, texts_of(file, "/texts/trace", count));
  constexpr auto kInteger = h5::ValueClass::Integer;
  fill(samples, &ResultSample::doc,
       numbers_of<std::int64_t>(file, "/numbers/doc", kInteger, count));
  fill(samples, &ResultSample::prompt_tokens,
       numbers_of<std::int64_t>(file, "/numbers/prompt_tokens", kInteger, count));
  const auto direction = numbers_of<std::int64_t>(file, "/numbers/direction", kInteger, count);
  for (std::size_t i = 0; i < count; ++i) samples[i].higher_is_better = direction[i] >= 0;
  fill(samples, &ResultSample::kept,
       numbers_of<double>(file, "/numbers/kept", h5::ValueClass::Float, count));
}

void require_distinct(const std::vector<ResultSample>& samples) {
  std::set<std::string_view> ids;
  for (const ResultSample& sample : samples)
    if (!ids.insert(sample.id).second) throw h5::Defect("a sample stands in it twice");
}

Results load_results(hid_t file) {
  if (h5::string_attribute(file, "format") != kResultsFormat)
    throw h5::Defect(fmt::format("it does not carry the mark format=\"{}\"", kResultsFormat));
  const std::string version = h5::string_attribute(file, "schema_version").value_or("");
  if (!version.starts_with(kMajor))
    throw h5::Defect(fmt::format("its schema version is {}, and this program reads {}x",
                                 version.empty() ? "missing" : printable(version.substr(0, 20)),
                                 kMajor));
  Results results;
  results.model = h5::string_attribute(file, "model").value_or("");
  results.complete = h5::int_attribute(file, "complete").value_or(0) == 1;
  results.total = h5::int_attribute(file, "total").value_or(0);
  const auto dataset = h5::Dataset::open(file, "/samples", h5::ValueClass::Compound, 1);
  const std::uint64_t count = dataset.dims().front();
  if (count > kMostSamples) throw h5::Defect(fmt::format("it claims {} samples", count));
  dataset.require_stored(count * dataset.stored_size());
  LoadBudget::require(count * sizeof(ResultSample), "/samples");
  results.samples.resize(count);
  load_asked(dataset, results.samples);
  load_beside(file, results.samples);
  require_distinct(results.samples);
  return results;
}

}  // namespace

bool is_results_file(const fs::path& path) {
  const h5::Lock lock;
  try {
    const h5::Handle file = h5::open_file_for_reading(path.string());
    return h5::string_attribute(file.get(), "format") == kResultsFormat;
  } catch (const h5::Defect&) {
    return false;
  }
}

Results read_results(const fs::path& path) {
  const std::string what = fmt::format("cannot read the results {}", path.string());
  std::error_code code;
  if (!fs::is_regular_file(path, code))
    throw input_error(what, fs::exists(path, code) ? "it is no file" : "there is no such file",
                      kRemedy);
  const h5::Lock lock;
  const LoadBudget budget(fs::file_size(path, code));
  try {
    const h5::Handle file = h5::open_file_for_reading(path.string());
    Results results = load_results(file.get());
    results.path = path.string();
    return results;
  } catch (const h5::Defect& defect) {
    throw input_error(what, defect.what(), kRemedy);
  }
}

}  // namespace kvloupe::trace
