// The names that users give to jobs and runs.
#ifndef BRAID_BASE_DISPLAY_NAME_H_
#define BRAID_BASE_DISPLAY_NAME_H_

#include <cstddef>
#include <string_view>

#include "absl/status/status.h"

namespace braid {

inline constexpr size_t kMaxNameBytes = 200;

// Returns INVALID_ARGUMENT unless `name` has at most kMaxNameBytes bytes and no control characters
// (U+0000 to U+001F and U+007F to U+009F), so that it fits into one line of a listing.
absl::Status CheckDisplayName(std::string_view name);

}  // namespace braid

#endif  // BRAID_BASE_DISPLAY_NAME_H_
