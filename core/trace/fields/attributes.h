// The attributes of a trace's groups, each declared once: its name and type, since which schema, and whether
// a reader can do without it. Writing, reading and checking follow this table, so do copies and repairs,
// which write what was read; a test holds FORMAT.md against it.
#pragma once

#include <string>
#include <vector>

namespace kvloupe::trace {

enum class Need {
  Required,  // its group cannot be read where it is absent or wrong
  Exact,     // may be absent; its group cannot be read where it is wrong
  Expected,  // where it is absent or wrong a default stands, with a warning
  Optional,  // may be absent; where it is wrong a default stands, with a warning
};

struct AttributeInfo {
  std::string group;  // "/model"; "{l}" stands for the layer's number, "{r}" for the run's
  std::string name;
  const char* type;  // as FORMAT.md begins it: "integer", "text [num_layers]"
  Need need = Need::Optional;
  int since = 0;  // minor version of the schema
  // What stands in its place, for the warning; null: nothing to be told.
  const char* assumed = nullptr;
};

// What the writer gives as schema_version, "1.10": the latest that an attribute or a field is of.
std::string schema_version();

// Those of all groups, each group's in the order in which they are written.
std::vector<AttributeInfo> all_attributes();

}  // namespace kvloupe::trace
