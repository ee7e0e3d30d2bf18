#include "capture/run/request_run.h"

#include "capture/model/model.h"
#include "capture/model/model_file.h"
#include "capture/run/calibrate.h"
#include "capture/run/capture_run.h"
#include "capture/run/estimate.h"
#include "capture/run/memory_plan.h"
#include "capture/run/request.h"
#include "core/base/error.h"
#include "core/base/foreign_error.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/device/torch_device.h"
#include "core/selection/spec/method_files.h"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace kvloupe::capture {
namespace {

using nlohmann::ordered_json;

// Room is taken in steps, so that a cache serves many requests.
constexpr std::int64_t kRoomStep = 1024;

// Text that was cut inside a character has U+FFFD there.
std::string line_of(const ordered_json& json) {
  return json.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
}

ordered_json with_id(const std::string& id, const ordered_json& members) {
  ordered_json json{{"id", ordered_json::parse(id)}};
  json.update(members);
  return json;
}

ordered_json mean_of(const std::vector<KeptKeys>& chunks) {
  KeptKeys all;
  for (const KeptKeys& chunk : chunks) {
    all.keys += chunk.keys;
    all.rows += chunk.rows;
  }
  if (all.rows == 0) return nullptr;
  return static_cast<double>(all.keys) / static_cast<double>(all.rows);
}

// Whether one of the stop texts stands in the answer so far, which grows token by token.
class StopWatch {
 public:
  StopWatch(const Tokenizer& tokenizer, const std::vector<std::string>& until)
      : tokenizer_(tokenizer), until_(until) {}

  bool operator()(std::int32_t token) {
    const std::size_t before = text_.size();
    text_ += tokenizer_.decode_bytes(token);
    return std::any_of(until_.begin(), until_.end(), [&](const std::string& stop) {
      return text_.find(stop, before - std::min(before, stop.size())) != std::string::npos;
    });
  }

 private:
  const Tokenizer& tokenizer_;
  const std::vector<std::string>& until_;
  std::string text_;
};

class Runner {
 public:
  Runner(std::shared_ptr<const LoadedModel> model, const RequestOptions& options,
         const WorkContext& context);
  // The members of the answer, beside its id.
  ordered_json answer(const std::string& id, const Request& request, RequestTotals& totals);

 private:
  void make_room(std::int64_t tokens);
  std::int64_t take_shared(const Course& course, std::int64_t prefilled);

  std::shared_ptr<const LoadedModel> model_;
  const RequestOptions& options_;
  const WorkContext& context_;
  RecorderOptions recording_;
  Probe probe_;
  std::optional<Decoder> decoder_;
  std::int64_t room_ = 0;            // of the decoder
  std::vector<std::int32_t> whole_;  // tokens of the whole prefill chunks that it begins with
  std::vector<KeptKeys> kept_;       // by the chunks of the last request
};

Runner::Runner(std::shared_ptr<const LoadedModel> model, const RequestOptions& options,
               const WorkContext& context)
    : model_(std::move(model)), options_(options), context_(context) {
  recording_.dtype = options.dtype;
  recording_.store = {};
  if (!options.closed_loop) return;
  basis_maker().make(*options.closed_loop, model_->info, context);
  recording_.closed_loop =
      recorded_method(*options.closed_loop, model_->info, all_layers(model_->info));
  if (!options.closed_loop->traits().needs_probe) return;
  probe_ = make_probe(model_->tokenizer);
  recording_.probe_len = static_cast<int>(probe_.ids.size());
  recording_.store.set(trace::Part::Loss);  // the novelty of tokens, for methods that have a probe
}

void Runner::make_room(std::int64_t tokens) {
  if (decoder_ && tokens <= room_) return;
  room_ = std::min<std::int64_t>(model_->context_length,
                                 (tokens + kRoomStep - 1) / kRoomStep * kRoomStep);
  whole_.clear();
  decoder_.reset();  // its memory first
  decoder_.emplace(model_,
                   DecoderOptions{std::max(room_, tokens), options_.dtype == trace::DType::F16});
}

// Leaves in the decoder the chunks that this request has in common with the one before, and says how many tokens they are.
// Only whole chunks are taken over, so that an answer is the same to the bit whatever was asked before. A method that evicts
// knows more than the keys of the cache tell: it shares nothing.
std::int64_t Runner::take_shared(const Course& course, std::int64_t prefilled) {
  const auto same =
      std::mismatch(whole_.begin(), whole_.end(), course.prompt.begin(), course.prompt.end());
  // The last token is run in any case: what comes next is asked; so are the rows that are scored, and the chunk that
  // ends the prefill, which some methods treat otherwise.
  const std::int64_t needed =
      std::ssize(course.prompt) - std::max<std::int64_t>(1, std::ssize(course.scored));
  const std::int64_t most = std::min({same.first - whole_.begin(), prefilled - 1, needed});
  const bool evicts = options_.closed_loop && options_.closed_loop->traits().evicts();
  const std::int64_t shared = evicts ? 0 : most / options_.chunk_size * options_.chunk_size;
  decoder_->truncate(shared);
  whole_.resize(static_cast<std::size_t>(shared));
  return shared;
}

ordered_json Runner::answer(const std::string& id, const Request& request, RequestTotals& totals) {
  const std::int64_t dropped = model_->tokenizer.dropped_bytes();
  RequestPrompt asked = prompt_of(request, model_->tokenizer);
  if (const std::int64_t bytes = model_->tokenizer.dropped_bytes() - dropped; bytes > 0)
    log::warning("{} bytes of request {} have no token in this model and were left out",
                 format_count(bytes), id);
  const auto tokens = static_cast<std::int64_t>(asked.prompt.ids.size());
  if (request.tokenize)
    return {{"text", model_->tokenizer.decode(asked.prompt.ids)}, {"prompt_tokens", tokens}};
  const int new_tokens = request.context ? 0 : request.max_new_tokens;
  check_prompt_fits("the prompt", tokens,
                    model_->context_length - std::max(new_tokens, recording_.probe_len),
                    request.context ? "shorten it" : "shorten it or ask for fewer new tokens");
  Course course{std::move(asked.prompt.ids),
                plan_chunks(asked.prefilled, tokens - asked.prefilled + std::max(0, new_tokens - 1),
                            options_.chunk_size),
                new_tokens, std::move(asked.continuation),
                StopWatch(model_->tokenizer, request.until)};
  recording_.prefill_len = asked.prefilled;
  if (model_->device().is_cuda())
    require_memory(plan_memory(*model_, recording_, course.plan), options_.device,
                   device::memory_bytes(model_->device()));
  make_room(cache_tokens(course.plan, tokens, probe_));
  const std::int64_t shared = take_shared(course, asked.prefilled);
  const auto whole =
      course.prompt.begin() + (asked.prefilled - 1) / options_.chunk_size * options_.chunk_size;
  std::vector<std::int32_t> whole_chunks(course.prompt.begin(), whole);

  Recorder recorder(nullptr, model_->info, recording_);
  CaptureRun run(model_, *decoder_, std::move(course), recording_, probe_, recorder);
  if (!run.run({context_.cancel, {}})) throw cancelled_error();
  whole_ = std::move(whole_chunks);
  kept_.resize(static_cast<std::size_t>(shared / options_.chunk_size));
  kept_.insert(kept_.end(), recorder.kept().begin() + std::ssize(kept_), recorder.kept().end());
  totals.prompt_tokens += tokens;
  totals.shared_tokens += shared;
  ordered_json answer;
  if (request.context) {
    answer = {{"loglikelihood", run.likelihood().log_prob}, {"greedy", run.likelihood().greedy}};
  } else {
    answer = {{"text", before_stop(run.answer(), request.until)},
              {"tokens", run.generated()},
              {"finish", run.ended() ? "stop" : "length"}};
  }
  answer.update({{"prompt_tokens", tokens},
                 {"kept", mean_of(kept_)},
                 {"prefill_s", run.prefill_seconds()},
                 {"decode_s", run.decode_seconds()}});
  return answer;
}

// Which lines are answered already, and which ids were seen.
class Ids {
 public:
  explicit Ids(const std::vector<std::string>& answered) {
    for (const std::string& id : answered) ++answered_[id];
  }
  bool is_answered(const std::string& id) {
    const auto found = answered_.find(id);
    return found != answered_.end() && found->second-- > 0;
  }
  bool is_new(const std::string& id) { return id == "null" || seen_.insert(id).second; }

 private:
  std::map<std::string, std::int64_t> answered_;
  std::set<std::string> seen_;
};

ordered_json answer_of(RequestLine& line, bool is_new, Runner& runner, RequestTotals& totals) {
  if (line.request && !is_new) {
    line.request.reset();
    line.error = input_error("the request is not answered", "an earlier line has the same id",
                             "give each line an id of its own")
                     .what();
  }
  if (!line.request) return {{"error", line.error}};
  try {
    return runner.answer(line.id, *line.request, totals);
  } catch (const std::exception& thrown) {  // memory that one request alone does not get, too
    const Error error = error_from("the request was not answered", thrown);
    if (error.kind() != ErrorKind::Input && error.kind() != ErrorKind::Usage) throw;
    if (is_gpu_failure(thrown)) throw;  // each request after it would fail, too
    return {{"error", error.what()}};
  }
}

}  // namespace

InputFiles request_inputs(const RequestOptions& options) {
  InputFiles files = files_of_model(options.model);
  if (options.closed_loop)
    for (const auto& file : selection::files_of(*options.closed_loop)) files.push_back(file);
  return files;
}

RequestTotals answer_requests(std::shared_ptr<const LoadedModel> model,
                              const RequestOptions& options, const RequestLines& lines,
                              const WorkContext& context) {
  Runner runner(std::move(model), options, context);
  Ids ids(options.answered);
  RequestTotals totals;
  while (const std::optional<std::string> text = lines.next()) {
    context.cancel.throw_if_cancelled();
    if (text->find_first_not_of(" \t\r") == std::string::npos) continue;
    RequestLine line = read_request(*text);
    const bool is_new = ids.is_new(line.id);
    if (ids.is_answered(line.id)) {
      ++totals.passed_over;
      continue;
    }
    const ordered_json members = answer_of(line, is_new, runner, totals);
    const bool is_error = members.contains("error");
    ++totals.answered;
    totals.errors += int(is_error);
    lines.answer(line_of(with_id(line.id, members)), is_error);
  }
  context.cancel.throw_if_cancelled();
  return totals;
}

RequestTotals run_requests(const RequestOptions& options, const RequestLines& lines,
                           const WorkContext& context) {
  const c10::Device device = device_for_model(options.device);
  const std::shared_ptr<const LoadedModel> model =
      load_model(options.model, options.compute, device);
  context.cancel.throw_if_cancelled();
  return answer_requests(model, options, lines, context);
}

}  // namespace kvloupe::capture
