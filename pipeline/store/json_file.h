// Small JSON files beside the arrays of a stage.
#ifndef BRAID_PIPELINE_STORE_JSON_FILE_H_
#define BRAID_PIPELINE_STORE_JSON_FILE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// The object in `path`. DATA_LOSS when it is none; errors of ReadFile.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::filesystem::path& path);

// Indented, keys sorted, one final newline: equal values give equal bytes.
// Bytes that are not UTF-8 are replaced.
std::string FormatJson(const nlohmann::json& value);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_JSON_FILE_H_
