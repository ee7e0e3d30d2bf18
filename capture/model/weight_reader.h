// The tensors of a model's files by what they are for, as fp32.
#pragma once

#include "capture/model/family.h"
#include "capture/model/model_source.h"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace kvloupe::capture {

using Shape = std::vector<std::int64_t>;

class WeightReader {
 public:
  WeightReader(const ModelSource& source, const Family& family)
      : source_(source), family_(family) {}

  // Throw Error{Input} where the tensor is missing or of another shape, before anything of that shape
  // is allocated. `layer` goes into the name.
  at::Tensor read(Role role, const Shape& shape, int layer = 0);
  // Undefined where there is none.
  at::Tensor bias(Role role, std::int64_t size, int layer);
  bool has(Role role, int layer = 0) const;
  // Several tensors with the same row length, one below the other.
  struct Part {
    Role role;
    std::int64_t rows = 0;
  };
  at::Tensor stacked(const std::vector<Part>& parts, std::int64_t columns, int layer);
  // Biases of such; zeros for parts without one, undefined where none has one.
  at::Tensor stacked_bias(const std::vector<Part>& parts, int layer);

  // What the experts of a layer have in one tensor or in one each, whichever way it lies.
  struct OfExpert {
    Role role;
    std::int64_t experts = 0;  // of the layer
    int layer = 0, expert = 0;
  };
  at::Tensor expert(const OfExpert& of, std::int64_t rows, std::int64_t columns);
  at::Tensor expert_bias(const OfExpert& of, std::int64_t size);

  void refuse_unread() const;

 private:
  std::string stem(Role role, int layer, int expert = 0) const;
  const StoredTensor* find(const std::string& name);
  const StoredTensor* find_weight(const std::string& stem);
  const StoredTensor* find_bias(const std::string& stem);
  const StoredTensor& require(const StoredTensor* tensor, const std::string& stem,
                              const Shape& shape) const;
  at::Tensor slice(const StoredTensor& tensor, std::int64_t begin, const Shape& shape) const;
  at::Tensor from_mxfp4(const StoredTensor& blocks, const std::string& stem, const OfExpert& of,
                        std::int64_t rows, std::int64_t columns);

  const ModelSource& source_;
  const Family& family_;
  std::set<std::string, std::less<>> names_;  // read so far
};

}  // namespace kvloupe::capture
