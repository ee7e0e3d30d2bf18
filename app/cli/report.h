// The pages of `kvloupe report`: of a method, of several beside each other, of two selections that differ.
#pragma once

#include "app/cli/options.h"
#include "app/cli/report_page.h"
#include "core/device/default_device.h"
#include "core/replay/compare.h"
#include "core/replay/diff.h"
#include "core/replay/lost_keys.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::cli {

struct ReportArguments {
  std::vector<std::string> traces;  // one, or A and B
  std::vector<std::string> methods;
  std::string output, device = device::kDefault;
  Indices layers, chunks;
  std::optional<int> chunk_size;
  bool force = false;
};

// Each writes its page, or throws Error and writes nothing.
void report_method(const ReportArguments& arguments, const GlobalOptions& global);
// Of one trace.
void report_comparison(const ReportArguments& arguments,
                       const std::vector<replay::MethodName>& methods, const GlobalOptions& global);
// Of two traces.
void report_difference(const ReportArguments& arguments,
                       const std::vector<replay::MethodName>& methods, const GlobalOptions& global);

// What the pages share (report_parts.cpp).
// What comes from a file begins nothing in the page.
std::string as_text(const std::string& text);
std::string as_code(const std::string& text);
// "SmolLM2, 2048 tokens in 16 chunks, 30 of 30 layers captured; complete."
std::string facts_of(const trace::TraceInfo& info);
// What the numbers of the page leave out, and what they are of; begins with a space.
std::string extent(const ReportArguments& arguments);
replay::ReplayRequest numbers_request(const ReportArguments& arguments);
replay::LostKeys lost_keys(const session::TraceSession& session, const replay::MethodChoice& choice,
                           const ReportArguments& arguments, std::size_t count);
replay::Diff diff_of(const replay::DiffSide& a, const replay::DiffSide& b,
                     const ReportArguments& arguments);
// Checked before anything is computed.
std::unique_ptr<ReportPage> open_page(const ReportArguments& arguments);
// Where the trace lost most, so that the pictures show it.
state::GotoTarget place_of(const replay::LostKeys& lost);
// Of the page's first trace and all of its methods.
figure::ExportRequest picture_request(const ReportArguments& arguments, const std::string& view,
                                      const GlobalOptions& global);
// A picture below its heading. One that cannot be drawn says why, where `may_lack`; what is wrong with the
// file is thrown in any case.
void draw_picture(ReportPage& page, figure::ExportRequest request, const std::string& heading,
                  bool may_lack);
void write_page(ReportPage& page);
// Layers and cells of a diff, as its page and that of two methods have them; `heading` is "##" or deeper.
std::string difference_text(const replay::Diff& diff, const std::string& heading);

}  // namespace kvloupe::cli
