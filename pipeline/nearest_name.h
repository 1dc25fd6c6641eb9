// "Did you mean": the known name closest to a mistyped one.
#ifndef BRAID_PIPELINE_NEAREST_NAME_H_
#define BRAID_PIPELINE_NEAREST_NAME_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace braid {

// The name with the smallest edit distance (Levenshtein) to `wanted`, the first of equals, if at
// most half of the longer of the two would have to change.
std::optional<std::string> NearestName(std::string_view wanted, std::span<const std::string> names);

}  // namespace braid

#endif  // BRAID_PIPELINE_NEAREST_NAME_H_
