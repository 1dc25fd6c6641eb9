// Errors of settings: the field, what it got and what it expected.
#ifndef BRAID_RUNS_FIELD_CHECK_H_
#define BRAID_RUNS_FIELD_CHECK_H_

#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace braid {

// Returns INVALID_ARGUMENT: "batch.micro_batch_size: got 0, expected ...".
inline absl::Status BadField(std::string_view field, std::string_view got,
                             std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat(std::string(field), ": got ", std::string(got),
                                                 ", expected ", std::string(expected)));
}

// Returns BadField unless the number is good.
inline absl::Status CheckField(bool good, std::string_view field, double got,
                               std::string_view expected) {
  if (good) return absl::OkStatus();
  // StrCat would print the integer 1000000 as 1e+06.
  const bool is_integer = std::abs(got) < 1e15 && got == std::trunc(got);
  return BadField(field, is_integer ? absl::StrCat(static_cast<int64_t>(got)) : absl::StrCat(got),
                  expected);
}

}  // namespace braid

#endif  // BRAID_RUNS_FIELD_CHECK_H_
