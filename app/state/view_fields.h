// The fields of a view's state as words: one table for all that carries the state. A new field is a
// member of ViewState and a row here.
#pragma once

#include "app/state/view_state.h"

#include <string>
#include <string_view>
#include <vector>

namespace kvloupe::state {

using Texts = std::vector<std::string>;

// Of options that other commands have, too.
inline constexpr const char* kDeviceHelp =
    "where it is computed: cpu, cuda:N, or sim, a slow stand-in for a GPU (kvloupe devices)";
inline constexpr const char* kChunkSizeHelp =
    "cut the prompt into chunks anew, of so many tokens (open loop)";

enum Carrier : unsigned {
  kCommand = 1,  // of `kvloupe export`, and so the command that the window copies
  kLink = 2,     // what --goto takes
  kKept = 4,     // places.json and the session
};
inline constexpr unsigned kAllCarriers = kCommand | kLink | kKept;

struct ViewField {
  enum class Shape {
    One,
    Many,
    Named,  // "view.option=value" each
  };

  std::string_view name;    // in kept files
  std::string_view option;  // in commands and links; empty: the name
  std::string_view help;    // of the option
  Shape shape = Shape::One;
  unsigned carriers = 0;
  Texts (*write)(const ViewState&) = nullptr;  // nothing where it is the default
  // Throws Error{Usage}.
  void (*read)(ViewState&, const Texts&) = nullptr;
  std::string_view default_text = {};  // for the help

  bool in(unsigned any_of) const { return (carriers & any_of) != 0; }
  std::string_view word() const { return option.empty() ? name : option; }
};

// In the order in which they are written and read.
const std::vector<ViewField>& view_fields();

// "layer=3,q_head=5;method=quoka;kv_map.zoom=fit": the place, then what else is not the default, by
// names. In a value "%3B" stands for ";", and "%25" for "%". What the text does not say is the base's.
std::string link_text(const ViewState& what);
ViewState parse_link(const std::string& text,
                     const ViewState& base = ViewState());  // throws Error{Usage}

}  // namespace kvloupe::state
