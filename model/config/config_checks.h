// Checks of single fields of a model's configuration. Private to model/config/.
#ifndef BRAID_MODEL_CONFIG_CONFIG_CHECKS_H_
#define BRAID_MODEL_CONFIG_CONFIG_CHECKS_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace braid {

// 32-bit extents keep every product of two of them within 64 bits.
inline constexpr int kMaxExtent = 1 << 24;

// Returns INVALID_ARGUMENT "model.FIELD: PARTS...".
template <class... Parts>
absl::Status Invalid(absl::string_view field, Parts... parts) {
  return absl::InvalidArgumentError(absl::StrCat("model.", field, ": ", parts...));
}

// Returns INVALID_ARGUMENT, which names the field, unless low <= value <= high.
inline absl::Status CheckRange(absl::string_view field, int64_t value, int64_t low, int64_t high) {
  if (value >= low && value <= high) return absl::OkStatus();
  return Invalid(field, "got ", value, ", expected ", low, " to ", high);
}

// Returns INVALID_ARGUMENT, which names the field, unless the value is finite and above 0.
inline absl::Status CheckPositive(absl::string_view field, double value) {
  if (std::isfinite(value) && value > 0) return absl::OkStatus();
  return Invalid(field, "got ", value, ", expected a positive number");
}

// Returns "the nearest are 6 and 8", the divisors of `number` below and above `wanted`; both at
// least 1.
inline std::string NearestDivisors(int number, int wanted) {
  int below = std::min(wanted, number), above = below;
  while (number % below != 0) --below;
  while (number % above != 0) ++above;
  if (below == above) return absl::StrCat("the nearest is ", below);
  return absl::StrCat("the nearest are ", below, " and ", above);
}

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_CONFIG_CHECKS_H_
