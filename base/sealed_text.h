// Text files that this system writes and reads back, with a CRC-32C of their content, so that a
// changed byte is an error and never another setting.
//
// A sealed file has two marks, so that no change of one place makes it look like a file without a
// checksum: those were written by older versions, or edited, and are read unverified. In files with
// comments the marks are the first and the last line; in a JSON object they are two members.
#ifndef BRAID_BASE_SEALED_TEXT_H_
#define BRAID_BASE_SEALED_TEXT_H_

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

// Returns `lines` between a first and a last line that begin with '#'. Requires that `lines` is
// empty or ends with a newline.
std::string SealLines(std::string_view lines);

// Returns whether a text has both marks of SealLines, right or wrong.
bool HasSealedLines(std::string_view text);

// Verifies the content of the file at `path` if it is sealed. DATA_LOSS for an empty file, for one
// with a single mark and for a wrong CRC; says how to accept an edit.
absl::Status CheckSealedLines(std::string_view text, const std::filesystem::path& path);

// Returns the text of a JSON object with the marks "crc32c" and "crc32c_covers" added; bytes that
// are not UTF-8 are replaced. Requires an object without these members.
std::string SealJson(const nlohmann::json& object);

// Parses the content of the file at `path`, verifies it if it is sealed, and removes the marks.
// DATA_LOSS for text that is not a JSON object, for a single mark and for a wrong CRC.
absl::StatusOr<nlohmann::json> OpenSealedJson(std::string_view text,
                                              const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_BASE_SEALED_TEXT_H_
