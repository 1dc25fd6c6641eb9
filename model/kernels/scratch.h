// Memory that a kernel needs while it runs, kept for the next call.
#ifndef BRAID_MODEL_KERNELS_SCRATCH_H_
#define BRAID_MODEL_KERNELS_SCRATCH_H_

#include <cstddef>
#include <cstdint>

namespace braid {

// Carves aligned pieces of floats, with undefined contents, out of one block
// that belongs to the calling thread and only grows. One user at a time:
//
//   Scratch scratch(total_floats);
//   float* columns = scratch.Take(num_tokens * width);
class Scratch {
 public:
  // Room for pieces of `capacity` floats in all, kPadding more for each piece.
  explicit Scratch(int64_t capacity);
  ~Scratch();
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;

  static constexpr int64_t kPadding = 16;

  float* Take(int64_t count);

 private:
  float* next_;
  float* end_;
};

// Bytes aligned to huge pages, which the system is asked to use for them: the
// expert kernels walk through many arrays at once. Freed with std::free.
void* AllocateHuge(size_t bytes);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_SCRATCH_H_
