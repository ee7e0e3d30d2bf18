// The page of two traces: where a method, or two, keep other keys in B than in A.
#include "app/cli/report.h"
#include "core/base/error.h"
#include "core/engine/engine.h"

#include <fmt/format.h>

#include <filesystem>
#include <tuple>

namespace kvloupe::cli {
namespace {

namespace fs = std::filesystem;
using replay::Diff;
using replay::DiffSide;

std::string title(const Diff& diff, const DiffSide& a, const DiffSide& b) {
  const auto name = [](const DiffSide& side) {
    return as_text(fs::path(side.session.info().path).filename().string());
  };
  std::string text = fmt::format("# {} beside {}\n\n", name(a), name(b));
  for (const auto& [letter, side] : {std::tuple("A", &a), {"B", &b}})
    text += fmt::format("- {}: {} in {}. {}\n", letter, as_code(replay::short_name(side->method)),
                        name(*side), facts_of(side->session.info()));
  return text + fmt::format(
                    "\nThe traces are aligned by their tokens: {} of A's {} and B's {} are the "
                    "same.",
                    diff.aligned_tokens, a.session.info().num_tokens, b.session.info().num_tokens);
}

// Where they first differ.
state::GotoTarget place_of(const Diff& diff) {
  state::GotoTarget place;
  if (const replay::DiffRow* first = diff.first_divergence()) {
    place.layer = first->layer;
    place.q_head = first->row * diff.layout.q_heads_per_row;
    place.chunk = first->chunk;
  }
  return place;
}

}  // namespace

void report_difference(const ReportArguments& arguments,
                       const std::vector<replay::MethodName>& methods,
                       const GlobalOptions& global) {
  engine().open_device(arguments.device);
  const session::TraceSession session_a =
      open_session(arguments.traces.front(), global, methods, arguments.chunk_size);
  report_damage(session_a.info());
  const session::TraceSession session_b =
      open_session(arguments.traces.back(), global, methods, arguments.chunk_size);
  report_damage(session_b.info());
  const DiffSide a{session_a, choice_of(methods.front(), session_a.info())};
  const DiffSide b{session_b, choice_of(methods.back(), session_b.info())};
  const std::unique_ptr<ReportPage> page = open_page(arguments);
  const Diff diff = diff_of(a, b, arguments);
  page->add(title(diff, a, b) + extent(arguments) + "\n\n" + difference_text(diff, "##"));
  if (!diff.rows.empty()) {
    figure::ExportRequest drawn = picture_request(arguments, "method_diff", global);
    drawn.what.other_trace = arguments.traces.back();
    drawn.what.options["method_diff.beside"] = methods.size() > 1 ? "other_b" : "other";
    drawn.what.place = place_of(diff);
    draw_picture(*page, drawn, "Layers and chunks", false);
  }
  if (!diff.rows.empty() && methods.size() == 1) {  // the maps show one method in both
    figure::ExportRequest drawn = picture_request(arguments, "kv_map", global);
    drawn.what.other_trace = arguments.traces.back();
    drawn.what.options["kv_map.show"] = "traces";
    drawn.what.place = place_of(diff);
    draw_picture(*page, drawn, "What is kept, chunk by chunk", false);
  }
  write_page(*page);
}

}  // namespace kvloupe::cli
