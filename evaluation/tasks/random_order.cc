#include "evaluation/tasks/random_order.h"

#include <algorithm>

#include "base/splitmix.h"

namespace braid {

int64_t RandomOrder::At(int64_t place) const {
  const auto found = moved_.find(place);
  return found == moved_.end() ? place : found->second;
}

int64_t RandomOrder::Next() {
  const int64_t left = size_ - next_;
  const double part = UnitInterval(Mix64(stream_, static_cast<uint64_t>(next_)));
  const auto offset = static_cast<int64_t>(part * static_cast<double>(left));
  const int64_t place = next_ + std::min(offset, left - 1);
  const int64_t drawn = At(place);
  moved_[place] = At(next_);
  moved_.erase(next_++);
  return drawn;
}

}  // namespace braid
