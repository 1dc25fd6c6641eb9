// The largest difference of two ranges of numbers, which does not hide what is not a number.
#ifndef BRAID_TESTS_BASE_LARGEST_DIFFERENCE_H_
#define BRAID_TESTS_BASE_LARGEST_DIFFERENCE_H_

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

namespace braid {

// Returns the largest absolute difference of elements at the same place, from `begin` on. Returns
// NaN, with which every comparison fails, where the sizes differ or an element is NaN; std::max(x,
// NaN) would be x.
template <class A, class B>
double LargestDifference(const A& a, const B& b, size_t begin = 0) {
  if (a.size() != b.size()) return std::numeric_limits<double>::quiet_NaN();
  double largest = 0;
  for (size_t i = begin; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;  // also two infinities
    const double difference = std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i]));
    if (std::isnan(difference)) return difference;
    largest = std::max(largest, difference);
  }
  return largest;
}

}  // namespace braid

#endif  // BRAID_TESTS_BASE_LARGEST_DIFFERENCE_H_
