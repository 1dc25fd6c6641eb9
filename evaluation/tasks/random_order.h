// A seeded random order of 0 .. size - 1, computed on demand.
#ifndef BRAID_EVALUATION_TASKS_RANDOM_ORDER_H_
#define BRAID_EVALUATION_TASKS_RANDOM_ORDER_H_

#include <cstdint>
#include <unordered_map>

namespace braid {

// Fisher-Yates shuffle that stores only the moved elements: the first n numbers take O(n) time and
// memory, whatever the size. The same size and stream give the same order on every machine.
class RandomOrder {
 public:
  RandomOrder(int64_t size, uint64_t stream) : size_(size), stream_(stream) {}

  bool done() const { return next_ == size_; }
  // Returns the next number. Requires !done().
  int64_t Next();

 private:
  // Returns the element currently at a position.
  int64_t At(int64_t place) const;

  const int64_t size_;
  const uint64_t stream_;
  int64_t next_ = 0;
  std::unordered_map<int64_t, int64_t> moved_;
};

}  // namespace braid

#endif  // BRAID_EVALUATION_TASKS_RANDOM_ORDER_H_
