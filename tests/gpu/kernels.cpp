// Parity and speed of the CUDA kernels without Torch, a test library or a network: what a lent GPU runs
// first. Compiled by nvcc it runs there; by the host's compiler, against the emulator, it is its own
// rehearsal, without times. Prints JSON; exits 1 where a result is wrong.
#include "core/cuda/chunk_attention.cuh"
#include "tests/cuda/chunk_attention_case.h"
#include "tests/gpu/device_memory.h"
#include "tests/gpu/selection_kernels.h"

#include <cstdio>
#include <cstring>

namespace {

using kvloupe::cuda::ChunkAttention;
using kvloupe::cuda::testing::Errors;
using kvloupe::cuda::testing::Inputs;
using kvloupe::cuda::testing::Results;
using kvloupe::cuda::testing::Shape;

using Numbers = kvloupe::gpu::DeviceNumbers<float>;

class Case {
 public:
  explicit Case(const Shape& shape)
      : shape_(shape),
        inputs_(shape),
        q_(inputs_.q),
        k_(inputs_.k),
        v_(inputs_.v),
        output_(shape.num_q()),
        lse_(shape.num_lse()),
        mass_(shape.num_mass()) {}

  cudaError_t launch(bool with_mass = true) const {
    ChunkAttention problem = kvloupe::cuda::testing::problem_of(shape_);
    problem.q = q_.data();
    problem.k = k_.data();
    problem.v = v_.data();
    problem.output = output_.data();
    problem.lse = lse_.data();
    problem.key_mass = with_mass ? mass_.data() : nullptr;
    return launch_chunk_attention(problem, nullptr);
  }
  Results results() const { return {output_.copy(), lse_.copy(), mass_.copy()}; }
  Errors errors(const Results& got) const {
    return kvloupe::cuda::testing::errors_of(shape_, inputs_, got);
  }

 private:
  Shape shape_;
  Inputs inputs_;
  Numbers q_, k_, v_, output_, lse_, mass_;
};

// True where all is right.
bool print_parity(const Shape& shape, bool last) {
  const Case one(shape);
  const bool started = one.launch() == cudaSuccess;
  const Results first = one.results();
  const bool again = one.launch() == cudaSuccess;
  const bool same =
      std::memcmp(first.output.data(), one.results().output.data(), 4 * first.output.size()) == 0;
  const Errors errors = one.errors(first);
  const bool right = started && again && same && kvloupe::cuda::testing::are_small(errors);
  std::printf(
      "    {\"kv_heads\": %d, \"group\": %d, \"chunk_len\": %d, \"past\": %d, \"dim\": %d, "
      "\"output\": %.3g, \"lse\": %.3g, \"key_mass\": %.3g, \"same_bits\": %s, \"right\": %s}%s\n",
      shape.kv_heads, shape.group, shape.chunk_len, shape.past, shape.dim, errors.output,
      errors.lse, errors.key_mass, same ? "true" : "false", right ? "true" : "false",
      last ? "" : ",");
  return right;
}

#ifdef __CUDACC__

// The case of docs/cuda.md: 32 query and 8 KV heads of 128, a chunk of 128 after 30,720 keys.
void print_times() {
  const Shape shape = {8, 4, 128, 30720, 128};
  const Case one(shape);
  const double flop = 4.0 * 32 * 128 * shape.kv_len() * 128;
  const double attend = kvloupe::gpu::median_ms([&] { return one.launch(false); }, 20);
  const double both = kvloupe::gpu::median_ms([&] { return one.launch(true); }, 20);
  std::printf(",\n  \"attend_ms\": %.4f, \"attend_and_mass_ms\": %.4f, \"attend_tflops\": %.3f",
              attend, both, flop / attend / 1e9);
}

#else

void print_times() {}

#endif

}  // namespace

int main() {
  std::printf("{\"device\": \"%s\",\n  \"parity\": [\n", kvloupe::gpu::device_name().c_str());
  bool right = true;
  const auto& shapes = kvloupe::cuda::testing::shapes();
  for (std::size_t i = 0; i < shapes.size(); ++i)
    right = print_parity(shapes[i], i + 1 == shapes.size()) && right;
  std::printf("  ]");
  print_times();
  right = kvloupe::gpu::print_selection() && right;
  std::printf("}\n");
  return right ? 0 : 1;
}
