// How many items of a parallel loop belong to one task.
#ifndef BRAID_MODEL_KERNELS_TASK_GRAIN_H_
#define BRAID_MODEL_KERNELS_TASK_GRAIN_H_

#include <algorithm>
#include <cstdint>

namespace braid {

// Multiplications of a matrix product, or elements that are copied or read once, that are worth
// waking another thread, which takes some ten microseconds.
inline constexpr int64_t kTaskProducts = int64_t{1} << 20;
inline constexpr int64_t kTaskElements = int64_t{1} << 17;

// Returns the number of items, each of that much work, that make up a task.
constexpr int64_t GrainOf(int64_t task, int64_t of_item) {
  return std::max<int64_t>(task / std::max<int64_t>(of_item, 1), 1);
}

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_TASK_GRAIN_H_
