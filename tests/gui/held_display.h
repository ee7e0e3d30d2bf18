// A connection of its own to the display server, which may end, or begin anew, with its last client.
#pragma once

namespace kvloupe::test {

class HeldDisplay {
 public:
  HeldDisplay();
  ~HeldDisplay();
  HeldDisplay(const HeldDisplay&) = delete;
  HeldDisplay& operator=(const HeldDisplay&) = delete;

 private:
  void* display_ = nullptr;
};

}  // namespace kvloupe::test
