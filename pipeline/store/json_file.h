// Small JSON files that accompany the arrays of a stage.
#ifndef BRAID_PIPELINE_STORE_JSON_FILE_H_
#define BRAID_PIPELINE_STORE_JSON_FILE_H_

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/statusor.h"

namespace braid {

// Reads the JSON object in `path`. Errors: DATA_LOSS when the file holds anything else; those of
// ReadFile.
absl::StatusOr<nlohmann::json> ReadJsonFile(const std::filesystem::path& path);

// Returns the value as indented JSON with sorted keys and one final newline, so that equal values
// give equal bytes. Bytes that are not UTF-8 are replaced.
std::string FormatJson(const nlohmann::json& value);

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_JSON_FILE_H_
