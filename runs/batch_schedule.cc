#include "runs/batch_schedule.h"

#include <algorithm>
#include <utility>

namespace braid {
namespace {

constexpr int64_t kMostSteps = int64_t{1} << 32;

// Returns the sum of floor(a i / m) over i in [0, n), with a, n >= 0 and m > 0, in as many rounds
// as Euclid's algorithm takes for a and m: the lattice points under a line are counted in columns,
// then in rows.
int64_t FloorSum(int64_t n, int64_t m, int64_t a) {
  int64_t sum = 0, b = 0;
  while (true) {
    const int64_t pairs = n % 2 == 0 ? n / 2 * (n - 1) : (n - 1) / 2 * n;
    sum += pairs * (a / m) + n * (b / m);
    a %= m;
    b %= m;
    const int64_t last = a * n + b;
    if (last < m) return sum;
    n = last / m;
    b = last % m;
    std::swap(m, a);
  }
}

}  // namespace

int64_t BatchSchedule::At(int64_t step) const {
  if (step >= growth_steps) return full;
  return first + unit * ((full - first) / unit * step / growth_steps);
}

int64_t BatchSchedule::Before(int64_t step) const {
  const int64_t growing = std::min(step, growth_steps);
  int64_t sum = full * (step - growing) + first * growing;
  if (growing > 0) sum += unit * FloorSum(growing, growth_steps, (full - first) / unit);
  return sum;
}

int64_t BatchSchedule::StepsToRead(double sequences) const {
  int64_t low = 0, high = kMostSteps + 1;  // too few, enough
  if (sequences <= 0) return 0;
  while (high - low > 1) {
    const int64_t middle = low + (high - low) / 2;
    (static_cast<double>(Before(middle)) >= sequences ? high : low) = middle;
  }
  return high;
}

}  // namespace braid
