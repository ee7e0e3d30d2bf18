// Where the user was in each trace, kept for the next start: places.json in the state folder.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kvloupe::shell {

// What is kept of a tab, as texts: what they mean the trace says (places.h).
struct KeptPlace {
  std::string trace;                              // absolute path
  std::string goto_text;                          // as --goto takes it
  std::vector<std::string> methods, more, tried;  // A and B first; "": one that could not be read
  std::string shown;                              // "A" or "B"
  std::map<std::string, std::string> options;     // "view.option"
  std::string device;                             // as --device takes it
  bool operator==(const KeptPlace&) const = default;
};

// From any thread, and beside other windows.
void save_places(const std::vector<KeptPlace>& places);
// Nothing where the file has no place of the trace, or is no file of places.
std::optional<KeptPlace> find_place(const std::string& trace);

}  // namespace kvloupe::shell
