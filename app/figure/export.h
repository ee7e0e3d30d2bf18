// `kvloupe export`: what a view shows, as a file, without a display.
#pragma once

#include "app/state/view.h"
#include "app/state/view_state.h"
#include "app/state/workspace.h"
#include "core/base/cancel.h"
#include "core/base/memory_account.h"
#include "core/selection/spec/basis_maker.h"

#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::figure {

struct Image;  // app/figure/image.h
struct Scene;  // app/figure/scene.h

struct ExportRequest {
  state::ViewState what;
  state::Format format = state::Format::Png;
  std::string file;  // - is standard output
  // Before the names that an SVG has inside: those of several in one page must differ.
  std::string id_prefix = {};
  std::string beside = {};                  // another file of the call: no output takes its place
  bool force = false;                       // replaces an HDF5, GGUF or safetensors file
  table::Marks marks = table::Marks::None;  // of tables in Markdown and LaTeX
  table::CsvHead csv_head = table::CsvHead::Id;
  MemoryAccountPtr memory = std::make_shared<MemoryAccount>();
  selection::BasisMaker bases = {};
};

struct Output {
  state::Format format = state::Format::Png;
  // With `each_chunk` the %d in it (or %03d) is the chunk's number, and there is a file of each.
  std::string file;
  bool each_chunk = false;
  std::optional<int> chunk = {};  // of one file of those
};
// Whether a file's name has room for a number: one %d, or %01d to %09d.
bool is_numbered(const std::string& file);

// Throws Error: Usage for what the arguments alone tell (state::check, a format that the view
// lacks), Input for a place that is not in the trace and for what could not be computed.
void export_view(const ExportRequest& request);
// The same in place of a file.
std::string view_bytes(const ExportRequest& request);
// Several files of one view at one place, in place of the request's own. Nothing is written unless all
// may be.
void export_view(ExportRequest request, const std::vector<Output>& outputs);
// The request's file of a workspace at which its trace is open and its words are shown already. An answer
// that the workspace has is taken as it is.
void export_shown(state::Workspace& workspace, const ExportRequest& request,
                  const CancelToken& cancel);
// One table of all chunks but those with nothing to show, with their number in front: `chunk`, or `at_chunk` beside a
// column `chunk` of the view's own. Usage for a view that does not look at chunks, or whose table is of all of them.
void export_all_chunks(const ExportRequest& request);
// The picture of a workspace at which the request's trace is open and its words are shown already.
// Throws Error{Input} for what could not be computed.
Image draw_view(state::Workspace& workspace, const ExportRequest& request,
                const CancelToken& cancel = interrupt_token());
// The same as shapes, with its title and its command.
Scene draw_scene(state::Workspace& workspace, const ExportRequest& request,
                 const CancelToken& cancel = interrupt_token());

}  // namespace kvloupe::figure
