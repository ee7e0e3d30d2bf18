// What a view is: it draws itself from the workspace, in the window and in exported figures alike,
// and gives exactly what it draws as a table or an array.
#pragma once

#include "app/state/workspace.h"

#include <memory>
#include <string>
#include <vector>

namespace kvloupe::widgets {
struct Palette;
}

namespace kvloupe::panels {

enum class Format { Png, Svg, Csv, Npy };
const char* name_of(Format format);

// Rows of text cells, numbers in their shortest exact form.
struct Table {
  std::vector<std::string> columns;
  std::vector<std::vector<std::string>> rows;
};

// A dense array for numpy; values of one type, row-major.
struct Array {
  std::string dtype;  // "<f4", "<f8", "|u1"
  std::vector<std::int64_t> shape;
  std::string bytes;
};

struct DrawContext {
  state::Workspace& workspace;
  const widgets::Palette& palette;
  bool figure = false;   // an exported figure: it carries its own title and caption
  bool compare = false;  // both methods are wanted, where the view can show two
};

class Panel {
 public:
  virtual ~Panel() = default;
  virtual void draw(DrawContext& context) = 0;
  // What is drawn now; called when the workspace is idle. nullptr-like: an empty table, no rows.
  virtual Table table(state::Workspace& workspace) = 0;
  virtual Array array(state::Workspace& workspace);
  // Why nothing is drawn for the current selection; empty when something is. Idle workspace only.
  virtual std::string problem(state::Workspace& workspace) = 0;
};

struct PanelInfo {
  const char* id;
  const char* title;
  const char* summary;  // one sentence for the palette, tooltips and the shortcut sheet
  std::vector<Format> formats;
  std::unique_ptr<Panel> (*make)();

  bool has(Format format) const;
};

// All views built, in the order of menus. A new view is one file and one line there.
const std::vector<PanelInfo>& panel_registry();
const PanelInfo* find_panel(const std::string& id);

// The makers, one a file.
std::unique_ptr<Panel> make_attention_map_panel();
std::unique_ptr<Panel> make_aqua_lanes_panel();
std::unique_ptr<Panel> make_block_tables_panel();
std::unique_ptr<Panel> make_kv_map_panel();
std::unique_ptr<Panel> make_layer_head_overview_panel();
std::unique_ptr<Panel> make_selected_vs_true_panel();
std::unique_ptr<Panel> make_miss_inspector_panel();
std::unique_ptr<Panel> make_token_strip_panel();
std::unique_ptr<Panel> make_query_geometry_panel();
std::unique_ptr<Panel> make_query_relevance_panel();
std::unique_ptr<Panel> make_quest_pages_panel();
std::unique_ptr<Panel> make_received_rankings_panel();
std::unique_ptr<Panel> make_latency_panel();
std::unique_ptr<Panel> make_trace_info_panel();

// Helpers for table() and array().
std::string cell(double value);
std::string cell(std::int64_t value);
std::string csv_text(const Table& table);
std::string npy_bytes(const Array& array);
template <typename T>
Array array_of(const char* dtype, std::vector<std::int64_t> shape, const std::vector<T>& values) {
  return {dtype, std::move(shape),
          std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T))};
}
// "" for Ready, else what stands in the way.
template <typename T>
std::string problem_of(const state::Result<T>& result) {
  switch (result.state) {
    case state::ResultState::Ready:
      return {};
    case state::ResultState::Error:
      return result.error;
    case state::ResultState::Loading:
      return "the result is not computed yet";
    case state::ResultState::Empty:
      return result.note;
  }
  return {};
}

}  // namespace kvloupe::panels
