// What is wrong inside a file, as one clause without the file's name. It never leaves this folder:
// the public functions turn it into an Error that names the file.
#pragma once

#include <stdexcept>

namespace kvloupe::trace::h5 {

class Defect : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace kvloupe::trace::h5
