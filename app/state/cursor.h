// Moves the selection of the active tab. Every step is clamped to what the trace holds and can be
// taken back.
#pragma once

#include "app/state/traces.h"

#include <functional>
#include <string>
#include <vector>

namespace kvloupe::state {

struct Sight;

class Cursor {
 public:
  explicit Cursor(Traces& traces) : traces_(traces) {}

  // While it lives, the trace and the selection are those that a view sees which has a sight of its own
  // (sight.h), and a change goes where it belongs: to the view, or to the selection of its trace.
  class Through {
   public:
    Through(Cursor& cursor, Sight& sight);
    ~Through();
    Through(const Through&) = delete;
    Through& operator=(const Through&) = delete;

   private:
    Cursor& cursor_;
  };

  const Selection& selection() const;  // of the ready trace; else an empty one
  const Place& place() const { return selection().place; }

  // `kind` names the coordinate: repeated changes of one kind count as one step of history.
  void change(const std::string& kind, const std::function<void(Selection&)>& how);
  void set_chunk(int chunk);
  void step_chunk(int by) { set_chunk(place().chunk + by); }
  void set_layer(int layer);
  void step_layer(int by);  // along the captured layers
  void set_q_head(int q_head);
  void set_device(const std::string& id);    // that device::open_device() takes
  void set_keys(const trace::KeySet& keys);  // none: the trace's needle
  void set_keys(std::int32_t begin, std::int32_t end) { set_keys({begin, end}); }
  void watch_nothing();
  void go_to(const GotoTarget& target);  // throws Error{Input} for a place that is not in the trace

  // Throws Error{Usage}. A SPEC equal to a recorded run's shows that run.
  void set_method(Slot slot, const std::string& spec);
  void set_method(Slot slot, const MethodChoice& choice);
  void set_run(Slot slot, int run);
  void set_more_methods(const std::vector<MethodChoice>& more);
  void swap_methods();
  void show(Slot slot);
  // An option of a view, "layer_head_overview.metric"; empty: its default.
  void set_option(const std::string& name, const std::string& value);
  void set_other_trace(const std::string& path);  // of an open tab; drawn beside this one
  void set_numbers(const NumberScope& scope);
  void set_perspective(const std::string& id);  // perspectives.h
  void set_picture(const PictureForm& form);    // of what is exported

  bool back();
  bool forward();
  bool can_go_back() const;
  bool can_go_forward() const;

 private:
  Traces& traces_;
  Sight* sight_ = nullptr;
  Selection seen_;  // through it
};

}  // namespace kvloupe::state
