// `kvloupe explain`: why a method kept or lost a key, or a span of keys.
#include "app/cli/commands.h"
#include "app/cli/json_text.h"
#include "app/cli/lost_keys_text.h"
#include "app/cli/options.h"
#include "app/cli/row_json.h"
#include "app/cli/span_loss_text.h"
#include "app/cli/table_json.h"
#include "app/state/labels.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/output_file.h"
#include "core/base/printable.h"
#include "core/base/results.h"
#include "core/base/units.h"
#include "core/base/whole_file.h"
#include "core/device/device.h"
#include "core/engine/engine.h"
#include "core/replay/explain.h"
#include "core/replay/replay.h"
#include "core/replay/request_checks.h"
#include "core/replay/span_loss.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {
namespace {

using nlohmann::ordered_json;
using replay::Explanation;

struct ExplainArguments {
  std::string trace, method, span, csv, device = device::kDefault;
  Indices layers, chunks;
  std::optional<int> chunk_size, kv_head, q_head;
  std::optional<std::int64_t> key;
  std::optional<std::int64_t> worst;
  bool no_budget = false, json = false, force = false;

  bool asks_for_span() const { return !span.empty() && !worst && !key; }
};

table::Table stages_table(const Explanation& why) {
  table::Table table{{"stage", "passed", {"detail", "what was found"}}, {}};
  for (const replay::StageOutcome& outcome : why.stages)
    table.rows.push_back({table::term_of(outcome.stage), outcome.passed, outcome.detail});
  return table;
}

table::Table voters_table(const Explanation& why, const session::TraceSession& session) {
  table::Table table{{{"q_head", "query head"}, "query", {"", "token"}, "attention", "sampled"},
                     {}};
  for (const Explanation::Voter& voter : why.voters)
    table.rows.push_back(
        {voter.q_head, voter.position,
         table::Token{session.token_texts().at(static_cast<std::size_t>(voter.position))},
         voter.attention, voter.sampled});
  return table;
}

ordered_json counterfactuals_json(const Explanation& why) {
  ordered_json all = ordered_json::array();
  for (const replay::Counterfactual& what_if : why.counterfactuals)
    all.push_back({{what_if.spec ? "spec" : "change",
                    what_if.spec ? what_if.spec->canonical() : what_if.change},
                   {"kept", what_if.kept}});
  return all;
}

ordered_json json_of(const Explanation& why, const session::TraceSession& session) {
  ordered_json json{{"method", why.method},
                    {"layer", why.layer},
                    {"chunk", why.chunk},
                    {"row", row_json(why.layout.axis, why.layout.q_heads_per_row,
                                     static_cast<std::size_t>(why.row))},
                    {"chunk_size", or_null(session.chunk_size())},
                    {"key", why.key},
                    {"token", session.token_texts().at(static_cast<std::size_t>(why.key))},
                    {"kept", why.kept},
                    {"forced", why.forced},
                    {"dense_reason", nullptr},
                    {"score", or_null(why.score)},
                    {"rank", or_null(why.rank)},
                    {"candidates", why.candidates},
                    {"budget", or_null(why.budget)},
                    {"cut", or_null(why.cut)},
                    {"margin", or_null(why.margin())},
                    {"true_mass", why.true_mass},
                    {"true_rank", why.true_rank},
                    {"needed_budget", or_null(why.needed_budget)},
                    {"lost_at", nullptr},
                    {"stages", json_rows(stages_table(why))},
                    {"counterfactuals", counterfactuals_json(why)}};
  if (why.run) json["run"] = *why.run;
  if (why.dense_reason) json["dense_reason"] = trace::name_of(*why.dense_reason);
  if (why.lost_at) json["lost_at"] = name_of(*why.lost_at);
  if (why.unit)
    json["unit"] = {{"begin", why.unit->begin},
                    {"end", why.unit->end},
                    {"rank", why.unit->rank > 0 ? ordered_json(why.unit->rank) : nullptr},
                    {"of", why.unit->of}};
  if (why.decided_at)
    json["decided_at"] = {{"layer", why.decided_at->layer},
                          {"chunk", why.decided_at->chunk},
                          {"at_hand", why.decided_at->at_hand}};
  json["rivals"] = ordered_json::array();
  for (const Explanation::Rival& rival : why.rivals)
    json["rivals"].push_back(
        {{"key", rival.key}, {"score", rival.score}, {"true_mass", rival.true_mass}});
  json["voters"] = json_rows(voters_table(why, session));
  return json;
}

std::string place_text(const Explanation& why, const session::TraceSession& session) {
  return fmt::format("layer {}, {}, chunk {}{}", why.layer, replay::row_words(why.layout, why.row),
                     why.chunk, cut_words(session));
}
std::string verdict(const Explanation& why) {
  if (why.lost_at) return fmt::format("lost: {}", words_of(*why.lost_at));
  if (why.dense_reason) return fmt::format("kept: all keys are ({})", name_of(*why.dense_reason));
  if (!why.kept) return "lost: why is not recorded";
  return why.forced ? "kept, by rule" : "kept";
}

std::string decided_text(const Explanation& why) {
  if (!why.decided_at) return {};
  return why.decided_at->layer == why.layer
             ? fmt::format(" at hand after chunk {}", why.decided_at->chunk)
             : fmt::format(", all in layer {}", why.decided_at->layer);
}

std::string text_of(const Explanation& why, const session::TraceSession& session) {
  const auto& texts = session.token_texts();
  std::string text =
      fmt::format("{}\n{}\nkey {} \"{}\": {}\n\n", printable(why.method), place_text(why, session),
                  why.key, printable(texts.at(static_cast<std::size_t>(why.key))), verdict(why));
  const auto number = [](const std::optional<double>& value) {
    return value ? fmt::format("{:.5g}", *value) : std::string("-");
  };
  if (why.run)
    text += fmt::format("run {} as recorded: which keys were kept is known, {}\n", *why.run,
                        why.rank ? "and how they were scored" : "how they were scored is not");
  if (!why.run || why.rank)
    text +=
        fmt::format("score {}, cut {}, margin {}, rank {} of {}{}\n", number(why.score),
                    number(why.cut), number(why.margin()), why.rank ? format_count(*why.rank) : "-",
                    format_count(why.num_ranked()), decided_text(why));
  text += fmt::format("by true mass {} of {}; ", format_count(why.true_rank),
                      format_count(why.candidates));
  text +=
      fmt::format("true mass {:.4g}, {} of what the candidates receive\n", why.true_mass,
                  state::brief_share_text(why.whole_mass > 0 ? why.true_mass / why.whole_mass : 0));
  if (why.needed_budget)
    text += fmt::format("{}{}\n", budget_words(why),
                        why.budget ? "; it is " + format_count(*why.budget) : "");
  if (!why.stages.empty()) text += "\n" + terminal_text(stages_table(why));
  if (!why.voters.empty()) text += "\n" + terminal_text(voters_table(why, session));
  return text;
}

// The place of one key.
int layer_of(const ExplainArguments& arguments) {
  return only_one(arguments.layers, "a key is explained in one layer");
}
int chunk_of(const ExplainArguments& arguments) {
  return only_one(arguments.chunks, "a key is explained in one chunk");
}

void check(const ExplainArguments& arguments) {
  if (arguments.worst && (arguments.key || arguments.kv_head || arguments.q_head))
    throw usage_error("--worst cannot be combined with a key or a head",
                      "it looks for keys in all heads",
                      "leave these out; --layers, --chunks and --span narrow the search");
  if (!arguments.csv.empty() && !arguments.asks_for_span())
    throw usage_error("--csv is for a span alone", "its heads are a table",
                      "give --span without --key and --worst, or leave it out");
  if (arguments.csv == "-" && arguments.json)
    throw usage_error("--csv - cannot be combined with --json",
                      "standard output has room for one of them", "name a file for the table");
  if (arguments.asks_for_span()) {
    if (arguments.kv_head || arguments.q_head)
      throw usage_error("--span cannot be combined with a head", "all heads are asked",
                        "leave it out; the table has a row for each head");
    return;
  }
  if (arguments.worst) return;
  if (!(arguments.layers.given() && arguments.chunks.given() && arguments.key))
    throw usage_error("the place is missing", "one key in one cell is explained",
                      "give --layer, --chunk, --key and --kv-head or --q-head; or --span NAME; or "
                      "--worst N");
  layer_of(arguments);
  chunk_of(arguments);
  if (!arguments.span.empty())
    throw usage_error("--span cannot be combined with --key", "one key is explained, or a span",
                      "leave one of them out");
}

std::string worst_text(const ExplainArguments& arguments, const replay::MethodChoice& choice,
                       const session::TraceSession& session) {
  auto request = request_of<replay::LostKeysRequest>(arguments);
  request.method = choice;
  request.span = span_of("--span", arguments.span, session.info());
  request.count = static_cast<std::size_t>(*arguments.worst);
  const replay::LostKeys lost = engine().lost_keys(session, request, reporting_context("cells"));
  return arguments.json ? lost_keys_json(lost, session, request.count)
                        : lost_keys_text(lost, session, request.count);
}

// The chunks asked for; else those from the question on, where the trace has one.
std::vector<int> chunks_of_span(const ExplainArguments& arguments, const trace::TraceInfo& info) {
  if (arguments.chunks.given()) return arguments.chunks.numbers;
  const trace::TokenSpan* const question = replay::question_of(info);
  if (question == nullptr) return {};
  std::vector<int> chunks;
  for (int chunk = info.chunk_of_token(question->begin);
       chunk < static_cast<int>(info.chunks.size()); ++chunk)
    chunks.push_back(chunk);
  return trace::with_queries(info, chunks);
}

// A span: as of a key, by selecting anew where the method is known.
std::string span_text(const ExplainArguments& arguments, const replay::MethodChoice& choice,
                      const session::TraceSession& session) {
  auto request = request_of<replay::SpanLossRequest>(arguments);
  request.method = choice;
  request.span = *span_of("--span", arguments.span, session.info());
  request.chunks = chunks_of_span(arguments, session.info());
  request.want_budgets = !arguments.no_budget;
  const replay::SpanLoss loss = engine().span_loss(session, request, reporting_context("layers"));
  if (!arguments.csv.empty())
    write_whole_file(arguments.csv, table::csv_text(span_heads_table(loss)));
  if (arguments.csv == "-") return "";
  return arguments.json ? span_loss_json(loss, session) : span_loss_text(loss, session);
}

// One key: of a run whose method is known by selecting anew, as the scores are not recorded.
std::string key_text(const ExplainArguments& arguments, const replay::MethodChoice& choice,
                     const session::TraceSession& session) {
  replay::ExplainRequest request;
  request.layer = layer_of(arguments);
  request.chunk = chunk_of(arguments);
  request.key = *arguments.key;
  request.device = arguments.device;
  request.want_needed_budget = !arguments.no_budget;
  request.row = replay::row_of_heads(replay::layout_of(choice, session.info()), session.shape(),
                                     arguments.kv_head, arguments.q_head);
  Explanation why;
  if (choice.known()) {
    request.spec = *choice.spec;
    if (request.want_needed_budget && request.spec.has_budget() &&
        !request.spec.traits().grows_with_budget)
      log::info("all budgets are tried, which takes long; --no-budget leaves them out");
    why = engine().explain(session, request, reporting_context("budgets"));
  } else {
    why = engine().explain_recorded(session, choice.run, request);
  }
  return arguments.json ? json_text("kvloupe-explain/1", json_of(why, session))
                        : text_of(why, session);
}

// That the answer is of a selection made anew, and where that is not what was recorded.
void say_anew(const ExplainArguments& arguments, const replay::MethodChoice& choice,
              const session::TraceSession& session) {
  log::info("run {} holds no scores: {} is selected anew to say why", choice.run,
            printable(replay::short_name(*choice.spec)));
  auto request = request_of<replay::ReplayRequest>(arguments);
  request.spec = *choice.spec;
  request.layers = replay::checked_layers_of_run(session, choice.run, request.layers);
  request.want_mass = false;
  const replay::ReplayResult anew = engine().replay(session, request, reporting_context("cells"));
  std::size_t differ = 0, layer = 0;
  trace::LayerRecord kept;
  for (std::size_t i = 0; i < anew.cells.size(); ++i) {
    const replay::ReplayCell& cell = anew.cells[i];
    if (i == 0 || cell.layer != anew.cells[i - 1].layer)
      kept = session.reader().read_run(choice.run, anew.layers.at(layer++));
    const auto& rows = kept.cells.at(static_cast<std::size_t>(cell.chunk)).rows;
    for (std::size_t row = 0; row < rows.size(); ++row)
      if (rows[row].positions != cell.rows.at(row).positions) {
        ++differ;
        break;
      }
  }
  if (differ > 0)
    log::warning(
        "what is selected anew differs from what run {} recorded in {} of {} cells; the answer is "
        "of the former",
        choice.run, differ, anew.cells.size());
}

// Before anything is computed.
void check_csv(const ExplainArguments& arguments, const replay::MethodName& method) {
  check_ending("--csv", arguments.csv, {"--csv"});
  check_result_file(arguments.csv, files_read({arguments.trace}, {method}), arguments.force);
}

void run_explain(const ExplainArguments& arguments, const GlobalOptions& global) {
  check(arguments);
  const replay::MethodName method(arguments.method);
  if (!arguments.csv.empty()) check_csv(arguments, method);
  engine().open_device(arguments.device);
  const session::TraceSession session =
      open_session(arguments.trace, global, {method}, arguments.chunk_size);
  const replay::MethodChoice choice = choice_in(session, method);
  if (choice.known() && choice.recorded()) say_anew(arguments, choice, session);
  const std::string text = arguments.worst             ? worst_text(arguments, choice, session)
                           : arguments.asks_for_span() ? span_text(arguments, choice, session)
                                                       : key_text(arguments, choice, session);
  arguments.json ? results::add_data(text) : results::add_text(text);
}

}  // namespace

Command explain_command(const GlobalOptions& global) {
  auto arguments = std::make_shared<ExplainArguments>();
  Command command("explain", "why a method kept or lost a key, or a span of keys");
  command.option("trace", &arguments->trace, "trace file").required();
  command.option("--method", &arguments->method, kMethodHelp).required();
  add_layers_option(command, arguments->layers,
                    "a layer; with --worst those searched, of a span those asked");
  add_chunks_option(command, arguments->chunks,
                    "a chunk; with --worst those searched, of a span those asked (without: from "
                    "the question on, where the trace has one)");
  add_chunk_size_option(command, arguments->chunk_size);
  command.option("--kv-head", &arguments->kv_head, "a KV head");
  command.option("--q-head", &arguments->q_head,
                 "a query head, where the method chooses for each or for some together");
  command.option("--key", &arguments->key, "position of the key");
  command
      .option("--worst", &arguments->worst,
              "in place of one key: the N lost keys of most true mass, and their causes")
      .range(1, 100000);
  command.option(
      "--span", &arguments->span,
      "a span of the trace, or positions such as 1536-1551: in which heads its keys are "
      "kept, what lost the others, and what would keep them; with --worst: its keys alone");
  command.option("--device", &arguments->device, kDeviceHelp).show_default();
  command.option("--no-budget", &arguments->no_budget,
                 "leave the budget that keeps it out: of methods that evict it takes minutes to "
                 "find");
  command.option("--csv", &arguments->csv,
                 "of a span: its heads as a table into this file, - is standard output");
  command.option("--force", &arguments->force,
                 "let the file of --csv replace a trace or a model, too");
  command.option("--json", &arguments->json, "as JSON, with all that is known");
  command.run = with_engine(global, [arguments, &global] { run_explain(*arguments, global); });
  return command;
}

}  // namespace kvloupe::cli
