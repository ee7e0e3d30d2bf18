// Where the structures of an HDF5 file stand in its bytes, and damage done to them. Found without the library, in files of
// the layout that our writer makes: superblock of version 0, object headers of version 1.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace kvloupe::trace::testing {

struct Place {
  std::size_t at;     // in the file
  std::size_t bytes;  // at least
};

struct Structure {
  std::vector<Place> object_headers;  // their messages, attributes among them
  // The bodies of attribute messages: version, reserved, then the sizes of name, datatype and
  // dataspace, two bytes each.
  std::vector<Place> attributes;
  std::vector<Place> group_trees;
  std::vector<Place> chunk_indices;
  std::vector<Place> symbol_nodes;
  std::vector<Place> local_heaps;
  std::vector<Place> global_heaps;
};

// Throws std::out_of_range where the file's own addresses lead outside it.
Structure find_structure(const std::string& file);

struct Damage {
  std::string bytes;  // the whole file
  std::string what;   // which bytes were set to what
};

// One to three fields of one kind of structure, set to values that break sizes, counts and
// addresses.
Damage damage_structure(const std::string& sound, const Structure& structure,
                        std::mt19937_64& random);
// One to eight bytes anywhere, every fifth time the end cut off instead.
Damage damage_at_random(const std::string& sound, std::mt19937_64& random);

}  // namespace kvloupe::trace::testing
