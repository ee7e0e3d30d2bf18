// The state of a view as the words of `kvloupe export`.
#pragma once

#include "app/state/view_fields.h"

#include <map>
#include <string>
#include <vector>

namespace kvloupe::state {

// What `kvloupe export` takes to say what is shown, beside the trace.
struct ExportOption {
  std::string name;  // "goto", without dashes
  std::string help;
  std::string default_text;  // empty: the help shows none
  bool many = false;
  bool of_views = false;  // state::check says whether the view has it
};
std::vector<ExportOption> export_options();

// The state of what was given, by the name of the option; no texts: it was not. Throws Error{Usage}.
ViewState state_of_words(const std::string& trace, const std::map<std::string, Texts>& given);
// "export", the trace, "--view", ... without the file to write.
std::vector<std::string> export_arguments(const ViewState& what);

}  // namespace kvloupe::state
