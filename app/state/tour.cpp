#include "app/state/tour.h"

#include "app/state/perspectives.h"
#include "app/state/questions/why_lost/miss_inspector.h"
#include "app/state/view_fields.h"
#include "app/state/view_list.h"
#include "app/state/workspace.h"
#include "core/base/error.h"
#include "core/base/letters.h"
#include "core/base/paths.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/selection/spec/method_spec.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <initializer_list>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

namespace kvloupe::state {
namespace {

constexpr std::uintmax_t kMostBytes = 1 << 20;
constexpr std::string_view kBlock = "```tour";
constexpr std::pair<std::string_view, TourGoal::Kept> kKeptWords[] = {
    {"all", TourGoal::Kept::All}, {"some", TourGoal::Kept::Some}, {"none", TourGoal::Kept::None}};

using Types = std::initializer_list<selection::ParamType>;
constexpr Types kNumbers = {selection::ParamType::Int, selection::ParamType::Float};

// Empty `types`: of any.
bool is_param_of_some_method(const std::string& name, Types types) {
  const auto is_it = [&](const selection::ParamInfo& param) {
    return param.name == name &&
           (types.size() == 0 || std::find(types.begin(), types.end(), param.type) != types.end());
  };
  return std::ranges::any_of(selection::catalogue(), [&](const selection::MethodInfo& method) {
    return std::ranges::any_of(method.params, is_it) ||
           std::ranges::any_of(selection::common_params(method), is_it);
  });
}

// "num_queries<=4" or "budget_tokens>=64"; nothing where it is no such thing.
std::optional<TourGoal::Bound> parse_bound(const std::string& item) {
  const std::size_t at = std::min(item.find("<="), item.find(">="));
  if (at == std::string::npos) return std::nullopt;
  const std::string name(trimmed(item.substr(0, at)));
  const auto value = parse_double(trimmed(item.substr(at + 2)));
  if (!value || !is_param_of_some_method(name, kNumbers))
    throw usage_error(fmt::format("'{}' is not understood", printable(item)),
                      value ? "no method has such a number" : "no number stands behind it",
                      "write done: num_queries<=4");
  return TourGoal::Bound{name, item[at] == '<', *value};
}

TourGoal parse_goal(const std::string& text) {
  TourGoal goal;
  goal.text = text;
  std::string link;
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ';');) {
    if (const auto bound = parse_bound(item)) {
      goal.bounds.push_back(*bound);
      continue;
    }
    if (!item.starts_with("kept=")) {
      link += (link.empty() ? "" : ";") + item;
      continue;
    }
    const auto found = std::find_if(std::begin(kKeptWords), std::end(kKeptWords),
                                    [&](const auto& one) { return item.substr(5) == one.first; });
    if (found == std::end(kKeptWords))
      throw usage_error(fmt::format("'{}' is not understood", printable(item)),
                        "what is kept of the watched keys is all, some or none",
                        "write done: kept=all");
    goal.kept = found->second;
  }
  goal.at = parse_link(link);
  goal.view = std::exchange(goal.at.view, {});
  if (!goal.view.empty()) view_named(goal.view);
  return goal;
}

// A line after another, with its number.
class Parser {
 public:
  Parser(std::string_view text, const std::filesystem::path& file) : rest_(text) {
    tour_.file = file;
  }

  Tour parse() {
    front();
    std::optional<TourPage> page;
    bool in_code = false;
    while (next()) {
      if (line_.starts_with("```") && (in_code || trimmed(line_) != kBlock)) in_code = !in_code;
      if (!in_code && line_.starts_with("# ")) {
        finish(page);
        page.emplace();
        page->title = trimmed(line_.substr(2));
      } else if (!in_code && trimmed(line_) == kBlock) {
        if (!page)
          fail("what is shown belongs to a page", "begin the page with '# ' and its title");
        block(*page);
      } else if (page) {
        page->body += fmt::format("{}\n", line_);
      } else if (!trimmed(line_).empty()) {
        fail("this stands before the first page", "begin a page with '# ' and its title");
      }
    }
    if (!page) fail("there is no page", "begin one with '# ' and its title");
    finish(page);
    return std::move(tour_);
  }

 private:
  bool next() {
    if (rest_.empty()) return false;
    const std::size_t end = std::min(rest_.find('\n'), rest_.size());
    line_ = rest_.substr(0, end);
    if (line_.ends_with('\r')) line_.remove_suffix(1);
    rest_.remove_prefix(std::min(end + 1, rest_.size()));
    ++number_;
    return true;
  }

  [[noreturn]] void fail(const std::string& why, const std::string& remedy) const {
    throw input_error(fmt::format("line {} of the tour {} is not understood", number_,
                                  printable(tour_.file.filename().string())),
                      why, remedy);
  }

  // "name: value"
  std::pair<std::string, std::string> entry() const {
    const std::size_t colon = line_.find(':');
    if (colon == std::string_view::npos)
      fail(fmt::format("'{}' has no colon", printable(std::string(line_))), "write name: value");
    return {std::string(trimmed(line_.substr(0, colon))),
            std::string(trimmed(line_.substr(colon + 1)))};
  }

  void front() {
    const std::string remedy = "begin the file with ---, title: and trace:, and --- again";
    if (!next() || trimmed(line_) != "---") fail("the file has no front part", remedy);
    while (next() && trimmed(line_) != "---") {
      if (trimmed(line_).empty()) continue;
      const auto [name, value] = entry();
      if (name == "title")
        tour_.title = value;
      else if (name == "trace")
        tour_.trace = beside(value);
      else
        fail(fmt::format("the front part has no '{}'", printable(name)), remedy);
    }
    if (trimmed(line_) != "---" || tour_.title.empty() || tour_.trace.empty())
      fail("the front part is not whole", remedy);
  }

  std::filesystem::path beside(const std::string& name) const {
    return (tour_.file.parent_path() / name).lexically_normal();
  }

  static const ViewField* field_of(const std::string& name) {
    for (const ViewField& field : view_fields()) {
      const bool named = field.shape == ViewField::Shape::Named;
      if ((field.in(kLink) || field.name == "workspace") &&
          (named ? name.find('.') != std::string::npos : field.word() == name))
        return &field;
    }
    return nullptr;
  }

  void block(TourPage& page) {
    std::map<const ViewField*, Texts> given;
    while (next() && !line_.starts_with("```")) {
      if (trimmed(line_).empty()) continue;
      const auto [name, value] = entry();
      try {
        if (name == "trace") {
          page.at.trace = beside(value).string();
        } else if (name == "try") {
          page.to_try = value;
        } else if (name == "see") {
          page.to_see = value;
        } else if (name == "knob") {
          if (!is_param_of_some_method(value, {}))
            fail(fmt::format("no method has a parameter '{}'", printable(value)),
                 "see kvloupe methods");
          page.knobs.push_back(value);
        } else if (name == "done") {
          page.goals.push_back(parse_goal(value));
        } else if (const ViewField* field = field_of(name)) {
          const bool named = field->shape == ViewField::Shape::Named;
          given[field].push_back(named ? name + "=" + value : value);
          field->read(page.at, given[field]);
        } else {
          fail(fmt::format("a page has no '{}'", printable(name)),
               "use try, see, done, knob, trace, workspace, or what a deep link takes: view, goto, "
               "method, ...");
        }
      } catch (const Error& error) {
        if (error.kind() == ErrorKind::Input) throw;
        fail(error.what(), "see docs/tours.md");
      }
    }
    if (!line_.starts_with("```")) fail("the block of the page has no end", "end it with ```");
  }

  void finish(std::optional<TourPage>& page) {
    if (!page) return;
    try {
      check_options(page->at);
      if (!page->at.view.empty()) check_view(page->at);
    } catch (const Error& error) {
      fail(fmt::format("the page '{}' cannot be shown: {}", printable(page->title), error.what()),
           "see kvloupe views");
    }
    page->body = trimmed(page->body);
    if (page->at.trace.empty()) page->at.trace = tour_.trace.string();
    tour_.pages.push_back(std::move(*page));
    page.reset();
  }

  std::string_view rest_, line_;
  int number_ = 0;
  Tour tour_;
};

bool is_there(GotoTarget target, const Place& place) {
  // Any query head of the KV head is in it; going there would choose its first.
  if (target.kv_head == place.kv_head()) target.kv_head.reset();
  Place there = place;
  try {
    apply_goto(there, target);
  } catch (const Error&) {
    return false;
  }
  return goto_text(there) == goto_text(place);
}

// The parameters that the text names have its values, whatever the others are.
bool is_method(const std::string& text, const MethodChoice& choice, const OpenTrace& trace) {
  if (text.find(':') == std::string::npos) return choice.id() == text;
  try {
    const MethodChoice wanted = choice_of_text(text, trace);
    if (wanted.text == choice.text) return true;
    if (!wanted.known() || !choice.known() || wanted.id() != choice.id()) return false;
    const auto has = choice.spec->parameters();
    const auto named = selection::values_of_text(text);
    return std::ranges::all_of(wanted.spec->parameters(), [&](const auto& param) {
      return named.count(param.first) == 0 || std::ranges::find(has, param) != has.end();
    });
  } catch (const Error&) {
    return false;  // the trace cannot serve it
  }
}

bool is_within(const TourGoal::Bound& bound, const MethodChoice& choice) {
  if (!choice.known()) return false;
  for (const auto& [name, text] : choice.spec->parameters())
    if (name == bound.param) {
      const auto value = parse_double(text);
      return value && (bound.at_most ? *value <= bound.value : *value >= bound.value);
    }
  return false;
}

bool is_kept(TourGoal::Kept kept, Workspace& workspace) {
  const Place& place = workspace.place();
  const auto miss = workspace.ask(MissQuestion{place, workspace.method()});
  if (miss.state != ResultState::Ready) return false;
  const auto chunk = static_cast<std::size_t>(place.chunk);
  if (chunk >= miss->chunks.size() || miss->chunks[chunk].total == 0) return false;
  const MissQuestion::Chunk& here = miss->chunks[chunk];
  switch (kept) {
    case TourGoal::Kept::All: return here.kept == here.total;
    case TourGoal::Kept::Some: return here.kept > 0;
    case TourGoal::Kept::None: return here.kept == 0;
    case TourGoal::Kept::Any: break;
  }
  return true;
}

}  // namespace

Tour parse_tour(std::string_view text, const std::filesystem::path& file) {
  return Parser(text, file).parse();
}

Tour load_tour(const std::filesystem::path& file) {
  std::error_code code;
  const std::uintmax_t size = std::filesystem::file_size(file, code);
  const std::string what = fmt::format("the tour {} cannot be read", printable(file.string()));
  if (code) throw input_error(what, code.message(), "name a file that is there");
  if (size > kMostBytes)
    throw input_error(what, fmt::format("it has {} bytes", size), "a tour has at most a megabyte");
  std::ifstream stream(file, std::ios::binary);
  std::ostringstream text;
  text << stream.rdbuf();
  if (!stream) throw input_error(what, "reading failed", "see its permissions");
  return parse_tour(text.str(), std::filesystem::absolute(file));
}

std::filesystem::path first_tour() { return paths::share_dir() / "tours" / "first.md"; }

bool is_reached(const TourGoal& goal, Workspace& workspace) {
  if (!workspace.has_trace()) return false;
  const Selection& now = workspace.selection();
  const ViewState& wanted = goal.at;
  if (!is_there(wanted.place, now.place)) return false;
  for (std::size_t i = 0; i < std::min(wanted.methods.size(), kSlots.size()); ++i)
    if (!is_method(wanted.methods[i], now.choice(kSlots[i]), *now.place.trace)) return false;
  for (const TourGoal::Bound& bound : goal.bounds)
    if (!is_within(bound, now.choice(Slot::A))) return false;
  for (const auto& [name, value] : wanted.options) {
    const auto found = now.options.find(name);
    if (found == now.options.end() || found->second != value) return false;
  }
  if (wanted.shown != ViewState().shown && wanted.shown != now.shown) return false;
  if (!(wanted.numbers == NumberScope()) && !(wanted.numbers == now.numbers)) return false;
  return goal.kept == TourGoal::Kept::Any || is_kept(goal.kept, workspace);
}

}  // namespace kvloupe::state
