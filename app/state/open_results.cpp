#include "app/state/open_results.h"

#include "app/state/method_groups.h"
#include "core/analysis/eval_scores.h"
#include "core/base/error.h"
#include "core/base/held_bytes.h"
#include "core/base/printable.h"
#include "core/trace/hdf5/load_budget.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr const char* kTag = "open results";

// Of a SPEC of this version. What another one is called is all that is known of it.
MethodChoice choice_of(const std::string& method) {
  try {
    return choice_anew(selection::MethodSpec::parse(method));
  } catch (const Error&) {
    MethodChoice choice;
    choice.text = method;
    return choice;
  }
}

// Two texts of one SPEC are one method.
std::string canonical(const std::string& method) {
  try {
    return selection::MethodSpec::parse(method).canonical();
  } catch (const Error&) {
    return method;
  }
}

std::uint64_t bytes_of(const trace::Results& results) {
  std::uint64_t sum = held_bytes(results.samples);
  for (const trace::ResultSample& sample : results.samples)
    for (const std::string* text :
         {&sample.task, &sample.method, &sample.id, &sample.sample, &sample.answer,
          &sample.expected, &sample.refused, &sample.trace})
      sum += held_bytes(*text);
  return sum;
}

struct ChargedResults {
  ReadResults results;
  std::shared_ptr<MemoryCharge> load;
};

std::shared_ptr<const ChargedResults> results_within(const MemoryAccountPtr& memory,
                                                     const std::string& path, int id) {
  const trace::LoadBudget budget(path, *memory);
  auto charged = std::make_shared<ChargedResults>();
  charged->results = results_of_file(path);
  charged->results.id = id;
  charged->load =
      std::make_shared<MemoryCharge>(charge_load(memory, path, bytes_of(charged->results.file)));
  return charged;
}

bool same_samples(const ReadResults& one, const ReadResults& other) {
  return std::ranges::equal(one.file.samples, other.file.samples, {}, &trace::ResultSample::id,
                            &trace::ResultSample::id);
}

}  // namespace

const std::string& ReadResults::label_of(const std::string& method) const {
  const auto found = labels.find(method);
  return found != labels.end() ? found->second : method;
}

ReadResults results_of_file(const std::string& path) {
  ReadResults results;
  results.file = trace::read_results(path);
  std::set<std::string> methods;
  for (const trace::ResultSample& sample : results.file.samples) methods.insert(sample.method);
  results.methods.assign(methods.begin(), methods.end());
  std::sort(results.methods.begin(), results.methods.end(),
            [](const std::string& a, const std::string& b) {
              const bool a_is_dense = a == kDense, b_is_dense = b == kDense;
              return a_is_dense != b_is_dense ? a_is_dense : analysis::reads_before(a, b);
            });
  std::vector<MethodChoice> choices;
  for (const std::string& method : results.methods) choices.push_back(choice_of(method));
  const std::vector<std::string> labels = distinct_labels(choices);
  for (std::size_t i = 0; i < labels.size(); ++i)
    results.labels[results.methods[i]] =
        printable(labels[i].empty() ? results.methods[i] : in_sentence(labels[i]));
  return results;
}

void OpenResults::open(const std::string& path, const FirstSight& first_sight) {
  std::error_code ignored;
  const std::string absolute = std::filesystem::absolute(path, ignored).string();
  const bool is_new = absolute != path_;
  path_ = absolute;
  state_ = ResultState::Loading;
  error_.clear();
  // What is read again takes the room of what is there.
  if (!is_new && load_) load_->resize(0);
  answers_.jobs().submit<ChargedResults>(
      Lane::TraceIo, kTag,
      fmt::format("Reading {}", printable(std::filesystem::path(absolute).filename().string())),
      [absolute, id = next_id_++, memory = memory_](const WorkContext&) {
        return results_within(memory, absolute, id);
      },
      [this, is_new, first_sight](const std::shared_ptr<const ChargedResults>& charged) {
        ResultsPtr results(charged, &charged->results);
        if (ready_) answers_.forget(ready_->key());
        if (!ready_ || !same_samples(*ready_, *results)) {  // indices of another file
          sight.lists_finding |= !sight.listed.empty();
          sight.listed.clear();
          sight.of_listed.clear();
        }
        ready_ = std::move(results);
        load_ = charged->load;
        state_ = ResultState::Ready;
        if (recording.results() != path_) recording.cancel();
        if (is_new) sight = first_sight ? first_sight(*ready_) : ResultsSight();
      },
      [this](const Error& error) {
        error_ = error.what();
        state_ = ready_ ? ResultState::Ready : ResultState::Error;
        if (load_) load_->resize(bytes_of(ready_->file));
        if (ready_) path_ = ready_->file.path;  // which stays open
        if (on_message) {
          on_message(error_, true);
          if (!ready_) close();
        }
      });
}

void OpenResults::close() {
  answers_.jobs().cancel(kTag);
  recording.cancel();
  if (ready_) answers_.forget(ready_->key());
  ready_.reset();
  load_.reset();
  path_.clear();
  state_ = ResultState::Empty;
  sight = {};
}

void OpenResults::record(const std::string& id) {
  if (!ready_) return;
  try {
    recording.start(ready_->file.path, id, sight.recorded_from);
  } catch (const Error& error) {
    if (on_message) on_message(error.what(), true);
  }
}

void OpenResults::begin_frame() {
  const auto ended = recording.poll();
  // Of another file nobody waits for it any more.
  if (!ended || !ready_ || ended->results != path_) return;
  const bool failed = !ended->problem.empty();
  if (!ended->trace.empty()) open(ended->results);
  if (!on_message) return;
  if (failed && ended->is_seen) return;
  if (failed)
    on_message("The sample was not recorded: " + ended->problem, true);
  else if (ended->trace.empty())
    on_message("The recording was cancelled; nothing of it is left.", false);
  else
    on_message(fmt::format("{} is recorded: Why? beside the sample opens it.",
                           std::filesystem::path(ended->trace).filename().string()),
               false);
}

void OpenResults::take(const OpenResults& other) {
  if (!other.ready_) return;
  state_ = ResultState::Ready;
  path_ = other.path_;
  ready_ = other.ready_;
  next_id_ = other.next_id_;
  sight = other.sight;
}

std::vector<std::string> OpenResults::shown() const {
  if (!ready_) return {};
  return sight.methods.empty() ? ready_->methods : sight.methods;
}

// Of those that are shown dense where it is there, which is what a method is to come up to.
std::string OpenResults::against() const {
  if (!sight.against.empty()) return sight.against;
  const std::vector<std::string> methods = shown();
  return methods.empty() ? "" : methods.front();
}

void OpenResults::show_methods(const std::vector<std::string>& methods) {
  sight.methods.clear();
  sight.against.clear();
  if (!ready_) return;
  for (const std::string& method : methods) {
    const auto found =
        std::find_if(ready_->methods.begin(), ready_->methods.end(), [&](const std::string& one) {
          return one == method || canonical(one) == canonical(method);
        });
    if (found == ready_->methods.end())
      throw input_error(fmt::format("there are no samples of {}", printable(method)),
                        fmt::format("the results are of {}", fmt::join(ready_->methods, ", ")),
                        "name one of these by --method");
    if (std::find(sight.methods.begin(), sight.methods.end(), *found) == sight.methods.end())
      sight.methods.push_back(*found);
  }
}

}  // namespace kvloupe::state
