// Strict parsing of JSON from outside: refuses what parsers usually accept.
#ifndef BRAID_BASE_STRICT_JSON_H_
#define BRAID_BASE_STRICT_JSON_H_

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "absl/status/statusor.h"

namespace braid {

// Parses one JSON value. INVALID_ARGUMENT for text that is not JSON, a key that is repeated within
// an object, or values nested more than `deepest_level` levels below the top.
absl::StatusOr<nlohmann::json> ParseStrictJson(std::string_view text, int deepest_level);

// Parses the text of the file at `path`, which must be a JSON object. Errors as above, after the
// path.
absl::StatusOr<nlohmann::json> ParseStrictJsonObject(std::string_view text, int deepest_level,
                                                     const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_BASE_STRICT_JSON_H_
