#include "base/strict_json.h"

#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

namespace braid {

using Json = nlohmann::json;

absl::StatusOr<Json> ParseStrictJson(std::string_view text, int deepest_level) {
  std::vector<std::set<std::string>> keys;  // keys so far of each object that is open
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    if (depth > deepest_level) throw std::invalid_argument("nested too deep");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed).second) {
      throw std::invalid_argument("repeated key " + parsed.dump());
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), check);
  } catch (const std::exception& error) {
    std::string problem = error.what();
    // The library begins with the name of a class: "[json.exception.parse_error.101] parse error".
    if (problem.starts_with("[json.exception")) problem.erase(0, problem.find("] ") + 2);
    return absl::InvalidArgumentError(problem);
  }
}

absl::StatusOr<Json> ParseStrictJsonObject(std::string_view text, int deepest_level,
                                           const std::filesystem::path& path) {
  absl::StatusOr<Json> json = ParseStrictJson(text, deepest_level);
  if (json.ok() && json->is_object()) return json;
  return absl::InvalidArgumentError(
      absl::StrCat(path.string(), ": ", json.ok() ? "not a JSON object" : json.status().message()));
}

}  // namespace braid
