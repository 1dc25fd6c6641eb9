// JSON from outside: what parsers usually let through is refused.
#ifndef BRAID_BASE_STRICT_JSON_H_
#define BRAID_BASE_STRICT_JSON_H_

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// INVALID_ARGUMENT for what is not JSON, a key repeated within an object, or
// values more than `deepest_level` levels below the top.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, int deepest_level);

}  // namespace braid

#endif  // BRAID_BASE_STRICT_JSON_H_
