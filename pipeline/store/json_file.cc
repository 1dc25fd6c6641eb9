#include "pipeline/store/json_file.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<nlohmann::json> ReadJsonFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::DataLossError(absl::StrCat(
        path.string(), ": expected a JSON object; remove the directory and resume the job"));
  }
  return json;
}

std::string FormatJson(const nlohmann::json& value) {
  return value.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace braid
