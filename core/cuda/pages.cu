// A thread takes one or four neighbouring channels of one page, so that the threads of a warp read whole
// lines of memory; nothing is shared between threads.
#include "core/cuda/pages.cuh"

#include "core/cuda/rows.cuh"
#include "core/cuda/start.cuh"

namespace kvloupe::cuda {
namespace {

constexpr int kThreads = 128;

// Of a column of numbers of type T: so many numbers of type Number<T>.
struct Bounds {
  template <typename T>
  using Number = T;
  static constexpr int kNumbers = 2;
  float largest = 0, smallest = 0;
  __device__ void begin(float value) { largest = smallest = value; }
  __device__ void add(float value) {
    largest = largest < value ? value : largest;
    smallest = value < smallest ? value : smallest;
  }
  __device__ float number(int i, int) const { return i == 0 ? largest : smallest; }
};

struct Mean {
  template <typename T>
  using Number = float;
  static constexpr int kNumbers = 1;
  double sum = 0;
  __device__ void begin(float value) { sum = static_cast<double>(value); }
  __device__ void add(float value) { sum += static_cast<double>(value); }
  __device__ float number(int, int rows) const {
    return static_cast<float>(sum / static_cast<double>(rows));
  }
};

// Grid: (pages times pieces of a row, heads).
template <typename T, typename Summary, int kVector>
__global__ void __launch_bounds__(kThreads) pages_kernel(PagesOfRows p) {
  const int pieces = p.dim / kVector, index = blockIdx.x * kThreads + threadIdx.x;
  const int page = index / pieces, channel = index % pieces * kVector, head = blockIdx.y;
  if (page >= p.num_pages()) return;
  const int begin = page == 0 ? 0 : page * p.page_size - p.cut;
  const int end = min((page + 1) * p.page_size - p.cut, p.count);
  const T* from = static_cast<const T*>(p.rows) + head * p.head_stride +
                  static_cast<std::int64_t>(begin) * p.dim + channel;

  Summary summaries[kVector];
  float values[kVector];
  load_widened(from, values);
  for (int i = 0; i < kVector; ++i) summaries[i].begin(values[i]);
#pragma unroll 8
  for (int row = 1; row < end - begin; ++row) {
    load_widened(from + static_cast<std::int64_t>(row) * p.dim, values);
    for (int i = 0; i < kVector; ++i) summaries[i].add(values[i]);
  }

  using Number = typename Summary::template Number<T>;
  const std::int64_t of_all = static_cast<std::int64_t>(head) * p.num_pages() + page;
  for (int number = 0; number < Summary::kNumbers; ++number)
    for (int i = 0; i < kVector; ++i)
      static_cast<Number*>(p.results)[(of_all * Summary::kNumbers + number) * p.dim + channel + i] =
          number_of<Number>(summaries[i].number(number, end - begin));
}

template <typename T, typename Summary, int kVector>
cudaError_t launch(const PagesOfRows& p, cudaStream_t stream) {
  const std::int64_t threads = static_cast<std::int64_t>(p.num_pages()) * (p.dim / kVector);
  return start(pages_kernel<T, Summary, kVector>,
               dim3(static_cast<unsigned>((threads + kThreads - 1) / kThreads), p.heads), kThreads,
               0, stream, p);
}

template <typename Summary>
cudaError_t launch_for(const PagesOfRows& p, cudaStream_t stream) {
  if (p.heads < 1 || p.count < 1 || p.dim < 1 || p.cut < 0 || p.cut >= p.page_size)
    return cudaErrorInvalidValue;
  return with_number_of(p.type, [&](auto number) {
    using T = decltype(number);
    return is_aligned<T, 4>(p.rows, p.head_stride, p.dim) ? launch<T, Summary, 4>(p, stream)
                                                          : launch<T, Summary, 1>(p, stream);
  });
}

}  // namespace

cudaError_t launch_page_bounds(const PagesOfRows& p, cudaStream_t stream) {
  return launch_for<Bounds>(p, stream);
}

cudaError_t launch_block_means(const PagesOfRows& p, cudaStream_t stream) {
  return launch_for<Mean>(p, stream);
}

}  // namespace kvloupe::cuda
