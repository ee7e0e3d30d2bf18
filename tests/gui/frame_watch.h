// How long the frames of a window keep its thread, and what was done when they took longest.
#pragma once

#include <cstddef>
#include <ctime>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::test {

class FrameWatch {
 public:
  struct Frame {
    double processor_ms = 0;  // that the thread computed
    double blocked_ms =
        0;  // that it waited before the frame went to the screen, while the machine had
            // room for it: for a lock, a disk, a drawing thread
    double wall_ms = 0;
    std::string event;
  };

  // The frames from now on are this event's.
  void now(const std::string& event) { event_ = event; }
  // The test engine runs a script in a thread of its own, while the window's waits: what it calls is done
  // by the window, too. Called by that thread, before and after.
  void script_begins();
  void script_ends();
  void begin();
  void rendered();  // what follows waits for the screen
  void end();

  std::size_t frames() const { return count_; }
  const Frame& worst() const { return worst_.front(); }  // by processor time
  // Percentiles, the worst frames, the worst of each kind of event (its first word).
  std::string report() const;

 private:
  struct Clock {
    double wall = 0, processor = 0, queued = 0;  // ms; queued: ready to run, and something else ran
  };
  Clock clock_now() const;

  struct Script {
    clockid_t processor = CLOCK_THREAD_CPUTIME_ID;
    std::string schedule;  // file
  };

  std::optional<Script> script_;
  std::string event_ = "start";
  Clock begin_, rendered_;
  std::size_t count_ = 0;
  std::vector<double> processor_;
  std::vector<Frame> worst_{1};      // the worst first
  std::vector<Frame> most_blocked_;  // the worst first
  std::map<std::string, double> by_kind_;
};

}  // namespace kvloupe::test
