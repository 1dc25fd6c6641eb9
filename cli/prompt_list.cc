#include "cli/prompt_list.h"

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/arguments.h"

namespace braid {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLineBytes = size_t{4} << 20;
constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // some editors write it

bool IsJsonObject(const std::string& line) {
  return Json::parse(line, nullptr, /*allow_exceptions=*/false).is_object();
}

std::optional<std::string> PromptOf(const std::string& line) {
  const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object() || !object.contains("prompt")) return std::nullopt;
  const Json& prompt = object["prompt"];
  return prompt.is_string() ? std::optional(prompt.get<std::string>()) : std::nullopt;
}

// Reads a line, at most kMaxLineBytes + 1 bytes of it. Returns false at the end of the file.
bool ReadLine(std::istream& in, std::string* line) {
  line->clear();
  int byte = 0;
  while (line->size() <= kMaxLineBytes && (byte = in.get()) != EOF && byte != '\n') {
    line->push_back(static_cast<char>(byte));
  }
  return !line->empty() || byte == '\n';
}

}  // namespace

absl::StatusOr<std::vector<std::string>> ReadPrompts(std::istream& in, const std::string& name) {
  std::vector<std::string> prompts;
  std::optional<bool> json;
  int64_t number = 0;
  for (std::string line; ReadLine(in, &line);) {
    ++number;
    if (line.size() > kMaxLineBytes) {
      return absl::InvalidArgumentError(absl::StrCat(name, ":", number,
                                                     ": got a line of more than ", kMaxLineBytes,
                                                     " bytes, expected a prompt"));
    }
    if (number == 1 && line.starts_with(kByteOrderMark)) line.erase(0, kByteOrderMark.size());
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (absl::StripAsciiWhitespace(line).empty()) continue;
    if (!json.has_value()) json = IsJsonObject(line);
    std::optional<std::string> prompt = *json ? PromptOf(line) : std::optional(line);
    if (!IsValidUtf8(line) || !prompt.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": expected ",
                       *json ? "a JSON object with a string \"prompt\", like the preceding lines"
                             : "UTF-8 text"));
    }
    prompts.push_back(*std::move(prompt));
  }
  if (!prompts.empty()) return prompts;
  return absl::InvalidArgumentError(absl::StrCat(name, ": got no prompt, expected one per line"));
}

absl::StatusOr<std::vector<std::string>> ReadPromptFile(const std::string& path) {
  if (path == "-") return ReadPrompts(std::cin, "standard input");
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const absl::Status error = SystemError("open", path, errno);
    return absl::Status(error.code(), absl::StrCat("--prompts: ", error.message()));
  }
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return absl::InvalidArgumentError(
        absl::StrCat("--prompts: ", path, " is a directory, expected a file"));
  }
  return ReadPrompts(file, path);
}

}  // namespace braid
