#include "app/shell/saved/layout_file.h"

#include "app/shell/saved/state_files.h"
#include "app/shell/saved/view_state_json.h"
#include "app/state/perspectives.h"
#include "app/state/sight.h"
#include "app/state/view_list.h"
#include "core/base/error.h"
#include "core/base/paths.h"
#include "core/base/printable.h"
#include "core/base/whole_file.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <system_error>

namespace kvloupe::shell {
namespace {

namespace fs = std::filesystem;
using nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kDeepest = 24;  // of brackets; a layout that the window writes has half of it
constexpr std::size_t kMostViews = 64, kMostTornOff = 32, kMostOptions = 512;

// Takes a file apart; whatever is wrong with it ends in one sentence.
class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  Layout layout(const std::string& text) {
    if (text.size() > kMostBytes) refuse("it is far larger than a layout");
    const ordered_json json = parsed(text);
    if (!json.is_object() || json.value("format", ordered_json()) != kLayoutFormat)
      refuse("it is no layout of KVLoupe");
    if (json.value("version", ordered_json()) != kVersion)
      refuse("it was written by another version");
    Layout layout;
    layout.name = text_in(json, "name");
    if (const std::string why = problem_of_name(layout.name); !why.empty()) refuse(why);
    layout.perspective = text_in(json, "workspace");
    if (state::find_perspective(layout.perspective) == nullptr)
      refuse(fmt::format("it is of a workspace '{}', which this version has not",
                         brief(layout.perspective)));
    layout.docks = docks(member(json, "docks"));
    if (num_large_ != 1) refuse("not one of its docks is the large one");
    torn_off(json, layout);
    locks(json, layout);
    options(json, layout);
    return layout;
  }

  [[noreturn]] void refuse(const std::string& why) const {
    throw input_error(fmt::format("{} is not used as a layout", printable(file_)), why,
                      "the window stays as it is; export the layout anew");
  }

 private:
  static std::string brief(const std::string& text) { return printable(text.substr(0, 40)); }

  ordered_json parsed(const std::string& text) const {
    const auto shallow = [&](int depth, ordered_json::parse_event_t, ordered_json&) {
      if (depth > kDeepest) refuse("it is nested far deeper than a layout");
      return true;
    };
    ordered_json json = ordered_json::parse(text, shallow, false);
    if (json.is_discarded()) refuse("it is damaged");
    return json;
  }

  const ordered_json& member(const ordered_json& json, const char* name) const {
    const auto found = json.find(name);
    if (found == json.end()) refuse(fmt::format("it lacks \"{}\"", name));
    return *found;
  }

  std::string text_in(const ordered_json& json, const char* name) const {
    const ordered_json& text = member(json, name);
    if (!text.is_string()) refuse(fmt::format("\"{}\" is no text", name));
    return text.get<std::string>();
  }

  float number_in(const ordered_json& json, const char* name, double least, double most) const {
    const ordered_json& number = member(json, name);
    if (!number.is_number() || !(number.get<double>() >= least && number.get<double>() <= most))
      refuse(fmt::format("\"{}\" is no number from {} to {}", name, least, most));
    return number.get<float>();
  }

  // Each at most once.
  std::vector<std::string> views_in(const ordered_json& json) {
    const ordered_json& list = member(json, "views");
    if (!list.is_array()) refuse("\"views\" is no list");
    std::vector<std::string> views;
    for (const ordered_json& entry : list) {
      const std::string view = entry.is_string() ? entry.get<std::string>() : "";
      if (!is_view(view))
        refuse(fmt::format("it has the view '{}', which this version does not know", brief(view)));
      if (!seen_.insert(view).second || seen_.size() > kMostViews)
        refuse(fmt::format("it has the view '{}' too often", brief(view)));
      views.push_back(view);
    }
    return views;
  }

  static bool is_view(const std::string& id) {
    for (const char* window :
         {state::kRunsWindow, state::kMemoryWindow, state::kMethodWindow, state::kNotesWindow})
      if (id == window) return true;
    return state::find_view(state::view_of(id)) != nullptr;
  }

  DockTree docks(const ordered_json& json) {
    DockTree tree;
    if (!json.is_object()) refuse("one of its docks is no object");
    if (!json.contains("cut")) {
      tree.views = views_in(json);
      if (json.contains("front")) tree.front = text_in(json, "front");
      if (!tree.front.empty() &&
          std::find(tree.views.begin(), tree.views.end(), tree.front) == tree.views.end())
        refuse(fmt::format("'{}' is in front of a dock where it does not lie", brief(tree.front)));
      tree.large = json.value("large", ordered_json()) == true;
      num_large_ += tree.large ? 1 : 0;
      return tree;
    }
    const std::string cut = text_in(json, "cut");
    if (cut != "beside" && cut != "below") refuse("a dock is cut neither beside nor below");
    tree.cut = cut == "beside" ? DockTree::Cut::Beside : DockTree::Cut::Below;
    tree.share = number_in(json, "share", 0.02, 0.98);
    const ordered_json& sides = member(json, "sides");
    if (!sides.is_array() || sides.size() != 2) refuse("a dock that is cut has not two sides");
    for (const ordered_json& side : sides) tree.sides.push_back(docks(side));
    return tree;
  }

  void torn_off(const ordered_json& json, Layout& layout) {
    const ordered_json& list = member(json, "torn_off");
    if (!list.is_array() || list.size() > kMostTornOff) refuse("\"torn_off\" is no list of views");
    for (const ordered_json& entry : list) {
      if (!entry.is_object()) refuse("what is torn off is no object");
      TornOff torn;
      torn.x = number_in(entry, "x", -1, 2);
      torn.y = number_in(entry, "y", -1, 2);
      torn.width = number_in(entry, "width", 0, 2);
      torn.height = number_in(entry, "height", 0, 2);
      torn.views = views_in(entry);
      if (!torn.views.empty()) layout.torn_off.push_back(std::move(torn));
    }
  }

  void locks(const ordered_json& json, Layout& layout) const {
    const ordered_json& locks = member(json, "locks");
    if (!locks.is_object()) refuse("\"locks\" is no object");
    for (const auto& [view, entry] : locks.items()) {
      const state::ViewState words = state_of_json(entry);
      const bool is_whole = !words.trace.empty() && words.methods.size() == state::kSlots.size() &&
                            words.place.layer && words.place.q_head && words.place.chunk;
      if (!seen_.contains(view) || state::find_view(state::view_of(view)) == nullptr || !is_whole)
        refuse(fmt::format("the lock of '{}' is damaged", brief(view)));
      layout.locks[view] = words;
    }
  }

  void options(const ordered_json& json, Layout& layout) const {
    const ordered_json& options = member(json, "options");
    if (!options.is_object() || options.size() > kMostOptions) refuse("\"options\" is no object");
    for (const auto& [name, value] : options.items()) {
      const std::string view = name.substr(0, name.find('.'));
      const state::ViewInfo* info =
          seen_.contains(view) ? state::find_view(state::view_of(view)) : nullptr;
      const bool known =
          info != nullptr && value.is_string() &&
          std::any_of(info->options.begin(), info->options.end(),
                      [&, name = name, value = value.get<std::string>()](const auto& option) {
                        return view + "." + option.name == name && option.choice(value) != nullptr;
                      });
      if (!known)
        refuse(fmt::format("the option '{}' is none that this version knows", brief(name)));
      layout.options[name] = value.get<std::string>();
    }
  }

  std::string file_;
  std::set<std::string> seen_;
  int num_large_ = 0;
};

ordered_json json_of(const DockTree& tree) {
  if (tree.cut == DockTree::Cut::None) {
    ordered_json json{{"views", tree.views}};
    if (!tree.front.empty()) json["front"] = tree.front;
    if (tree.large) json["large"] = true;
    return json;
  }
  return {{"cut", tree.cut == DockTree::Cut::Beside ? "beside" : "below"},
          {"share", tree.share},
          {"sides", {json_of(tree.sides[0]), json_of(tree.sides[1])}}};
}

}  // namespace

std::string problem_of_name(const std::string& name) {
  if (name.find_first_not_of(' ') == std::string::npos) return "its name is empty";
  if (name.size() > kLongestLayoutName)
    return fmt::format("its name is longer than {} bytes", kLongestLayoutName);
  if (printable(name) != name) return "its name holds what cannot be shown";
  return "";
}

std::string text_of(const Layout& layout) {
  ordered_json torn_off = ordered_json::array();
  for (const TornOff& torn : layout.torn_off)
    torn_off.push_back({{"x", torn.x},
                        {"y", torn.y},
                        {"width", torn.width},
                        {"height", torn.height},
                        {"views", torn.views}});
  ordered_json locks = ordered_json::object(), options = ordered_json::object();
  for (const auto& [view, words] : layout.locks) locks[view] = json_of_state(words);
  for (const auto& [name, value] : layout.options) options[name] = value;
  return ordered_json{{"format", kLayoutFormat},
                      {"version", kVersion},
                      {"name", layout.name},
                      {"workspace", layout.perspective},
                      {"docks", json_of(layout.docks)},
                      {"torn_off", torn_off},
                      {"locks", locks},
                      {"options", options}}
             .dump(2) +
         "\n";
}

Layout layout_of_text(const std::string& text, const std::string& file) {
  return Reader(file).layout(text);
}

Layout read_layout(const fs::path& path) {
  const Reader reader(path.string());
  std::string text;
  try {
    text = read_small_file(path);
  } catch (const Error& error) {
    reader.refuse(error.why());
  }
  if (text.empty()) reader.refuse("there is nothing in it");
  return layout_of_text(text, path.string());
}

void write_layout(const fs::path& path, const Layout& layout) {
  std::error_code ignored;
  fs::create_directories(path.parent_path(), ignored);
  write_whole_file(path, text_of(layout));
}

// Any name becomes the name of one file.
fs::path layout_path(const std::string& name) {
  std::string file;
  for (const char c : name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == ' ';
    file += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return paths::config_dir() / "layouts" / (file + ".json");
}

std::vector<Layout> saved_layouts(std::vector<std::string>& problems) {
  constexpr std::size_t kMost = 100;
  std::vector<Layout> layouts;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(paths::config_dir() / "layouts", none)) {
    if (entry.path().extension() != ".json" || layouts.size() == kMost) continue;
    try {
      layouts.push_back(read_layout(entry.path()));
    } catch (const Error& error) {
      problems.emplace_back(error.what());
    }
  }
  std::sort(layouts.begin(), layouts.end(),
            [](const Layout& a, const Layout& b) { return a.name < b.name; });
  return layouts;
}

}  // namespace kvloupe::shell
