// Memory for temporary arrays of kernels, reused between calls.
#ifndef BRAID_MODEL_KERNELS_SCRATCH_H_
#define BRAID_MODEL_KERNELS_SCRATCH_H_

#include <cstdint>

namespace braid {

// Allocates aligned arrays of floats, with undefined contents, from one block that belongs to the
// calling thread and only grows. At most one Scratch exists per thread at a time.
//
//   Scratch scratch(total_floats);
//   float* columns = scratch.Take(num_tokens * width);
class Scratch {
 public:
  // Reserves `capacity` floats in total; each array needs up to kPadding more than its size.
  explicit Scratch(int64_t capacity);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static constexpr int64_t kPadding = 16;

  // Returns the next `count` floats, aligned to kPadding floats, valid during the lifetime of the
  // Scratch. Checks that the capacity suffices.
  float* Take(int64_t count);

  // Returns the floats that the calling thread's block holds, for tests.
  static int64_t HeldByThread();

 private:
  float* next_;
  float* end_;
};

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SCRATCH_H_
