// Sentences that the user should see once: in a corner of the window for some seconds, and in the
// log.
#pragma once

#include "app/widgets/palette.h"

#include <string>
#include <vector>

namespace kvloupe::shell {

class Messages {
 public:
  void say(const std::string& text, bool is_error);
  // The same sentence is said once until another has been said in between.
  void say_once(const std::string& text, bool is_error);
  void draw(const widgets::Palette& palette);
  bool empty() const { return toasts_.empty(); }
  const std::vector<std::string>& history() const { return history_; }

 private:
  struct Toast {
    std::string text;
    bool is_error = false;
    double until = 0;
  };
  std::vector<Toast> toasts_;
  std::vector<std::string> history_;
};

}  // namespace kvloupe::shell
