// The traces that are open, as tabs, each with its own selection and history.
#pragma once

#include "app/state/answers.h"
#include "app/state/selection.h"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace kvloupe::state {

// What the user marked in the list of runs, as T.h5.session.json keeps it (shell/saved/run_marks_file.h).
struct RunMarks {
  std::map<std::string, std::string> names;  // by SPEC
  std::set<std::string> pins;                // by key
  bool operator==(const RunMarks&) const = default;
};

// What a tab shows once it is ready.
struct WantedView {
  std::optional<Selection> like;  // of the trace that was shown before: its place is kept
  std::optional<ViewState> what;
  Unknown unknown = Unknown::Refuse;
};

struct TraceTab {
  int id = 0;
  std::string path, name;
  ResultState state = ResultState::Loading;
  std::string error;
  Selection selection;  // of a ready trace; its place holds the trace
  SelectionHistory history;
  std::vector<MethodChoice> recorded;  // the runs of the ready trace, in its order
  std::vector<MethodChoice> tried;     // selected anew on the spot, newest last
  WantedView wanted;                   // nothing of a ready trace
  bool marks_loaded = false;
  RunMarks marks;
  bool question_seen = false;  // of a trace that grows, from the reading on that has it

  void remember_tried(const MethodChoice& method);
};

class Traces {
 public:
  using Opener = std::function<TracePtr(const std::string& path, const MemoryAccountPtr&)>;
  Traces(Answers& answers, MemoryAccountPtr memory, Opener opener);

  // Opens in the background, or shows it when it is open already. `what` is shown when it is ready,
  // whatever trace it names; of a trace that is ready already as one step of its history, over the chunks
  // chosen where it names none. A file that cannot be opened is told once and leaves no tab.
  void open(const std::string& path, std::optional<ViewState> what = std::nullopt,
            Unknown unknown = Unknown::Refuse);
  // Opens in the background and shows it beside, not in front; nothing where it is open.
  void open_beside(const std::string& path);
  void close_active();
  // Reads the file anew and keeps place and methods, as they are by the time it has been read. A file
  // that is gone leaves the view as it is.
  void reload_active();
  // A file that has grown, or taken another name: its tab shows what is there now. Place, methods and
  // history stay; who stood at the last chunk stands at the last one again. A tab of what lay under the other name
  // closes. False: no tab has the file.
  bool grown(const std::string& path, const std::string& path_now);
  void activate(int tab_id);
  // Opens what is open and ready elsewhere, as it stands there.
  void take(const Traces& others);

  const std::vector<std::unique_ptr<TraceTab>>& tabs() const { return tabs_; }
  TraceTab* active();
  const TraceTab* active() const;
  const TraceTab* find(const std::string& path) const;
  // While a view is drawn that looks at another one, that one counts as the active tab.
  static constexpr int kActive = -1;
  void look_at(int tab_id) { looked_at_ = tab_id; }
  // The active tab when its trace is ready.
  TraceTab* ready();
  const TraceTab* ready() const;

  // Called with a sentence that the user should see once.
  std::function<void(const std::string&, bool is_error)> on_message;
  // Called with the file where it holds results of an evaluation, and no trace: no tab is left of it.
  std::function<void(const std::string& path)> on_results;
  // Called when a trace has been read, also anew; `fresh` where no state was given and none carried over.
  std::function<void(TraceTab&, bool fresh)> on_opened;

 private:
  void load(const TraceTab& tab, bool has_grown);
  void opened(TraceTab& tab, const TracePtr& trace, bool has_grown);
  TraceTab& add_tab(const std::string& absolute);
  void keep_place(TraceTab& tab, const Selection& before) const;
  void show_wanted(TraceTab& tab, const ViewState& what, Unknown unknown) const;
  void show_in_open(TraceTab& tab, const ViewState& what, Unknown unknown);
  void failed(TraceTab& tab, const Error& error);
  void rename_other(const std::string& from, const std::string& to);
  void close(const TraceTab& tab);
  void remove(const TraceTab& tab);
  void say(const std::string& text, bool is_error) const;
  TraceTab* find(int tab_id);

  Answers& answers_;
  MemoryAccountPtr memory_;
  Opener opener_;
  std::vector<std::unique_ptr<TraceTab>> tabs_;
  int active_ = -1;
  int looked_at_ = kActive;
  int next_id_ = 1;
};

}  // namespace kvloupe::state
