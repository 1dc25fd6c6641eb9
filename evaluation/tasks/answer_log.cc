#include "evaluation/tasks/answer_log.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using nlohmann::json;

constexpr char kCrcMember[] = "crc32c";

std::string Dump(const json& line) {
  return line.dump(-1, ' ', false, json::error_handler_t::replace);
}

// Returns the line of an object, with the CRC-32C of its text as a further member.
std::string SealedLine(json object) {
  object[kCrcMember] = Crc32cToHex(Crc32c(Dump(object)));
  return Dump(object) + "\n";
}

// Parses a line of SealedLine and removes the checksum, which must be right. Throws
// json::exception.
json OpenLine(const std::string& text) {
  json object = json::parse(text);
  const json stored = object.at(kCrcMember);
  object.erase(kCrcMember);
  return stored == Crc32cToHex(Crc32c(Dump(object))) ? object : json();
}

json ToJson(const ExampleAnswer& answer) {
  json line = {{"example", answer.example}, {"shots", answer.num_shots}};
  if (answer.shortened) line["shortened"] = true;
  if (answer.reference.has_value()) {
    line["reference"] = {{"log_prob", answer.reference->log_prob},
                         {"tokens", answer.reference->num_tokens}};
  }
  if (answer.number.has_value()) {
    line["number"] = *answer.number;
    return line;
  }
  if (answer.choices.empty()) {
    line["text"] = answer.text;
    return line;
  }
  for (const ChoiceScore& choice : answer.choices) {
    line["log_prob"].push_back(choice.log_prob);
    line["tokens"].push_back(choice.num_tokens);
    line["unconditional"].push_back(choice.unconditional_log_prob);
  }
  return line;
}

// Returns nullopt for a damaged line.
std::optional<ExampleAnswer> FromLine(const std::string& text) {
  try {
    const json line = OpenLine(text);
    ExampleAnswer answer;
    answer.example = line.at("example").get<int64_t>();
    answer.num_shots = line.at("shots").get<int>();
    answer.shortened = line.value("shortened", false);
    answer.text = line.value("text", "");
    if (line.contains("number")) answer.number = line.at("number").get<double>();
    if (line.contains("reference")) {
      const json& reference = line.at("reference");
      answer.reference = ChoiceScore{reference.at("log_prob").get<double>(),
                                     reference.at("tokens").get<int64_t>(), 0};
    }
    if (!line.contains("log_prob")) return answer;
    const size_t count = line.at("log_prob").size();
    if (line.at("tokens").size() != count || line.at("unconditional").size() != count) return {};
    for (size_t i = 0; i < count; ++i) {
      answer.choices.push_back({line.at("log_prob").at(i).get<double>(),
                                line.at("tokens").at(i).get<int64_t>(),
                                line.at("unconditional").at(i).get<double>()});
    }
    return answer;
  } catch (const json::exception&) {
    return std::nullopt;
  }
}

}  // namespace

AnswerLog::AnswerLog(std::filesystem::path path, int descriptor, FileLock lock)
    : path_(std::move(path)), descriptor_(descriptor), lock_(std::move(lock)) {}

AnswerLog::~AnswerLog() { close(descriptor_); }

absl::StatusOr<std::unique_ptr<AnswerLog>> AnswerLog::Open(const std::filesystem::path& path,
                                                           const std::string& header,
                                                           const AnswerFits& fits) {
  ASSIGN_OR_RETURN(std::optional<FileLock> lock, FileLock::TryTake(path, 0666));
  if (!lock) {
    return absl::FailedPreconditionError(
        absl::StrCat(path.string(),
                     " is being written by another evaluation; wait for it, or choose another "
                     "directory for the answers"));
  }
  const int descriptor = open(path.c_str(), O_RDWR | O_APPEND | O_CLOEXEC);
  if (descriptor < 0) return SystemError("open", path, errno);
  std::unique_ptr<AnswerLog> log(new AnswerLog(path, descriptor, *std::move(lock)));
  RETURN_IF_ERROR(log->Load(header, fits));
  return log;
}

absl::Status AnswerLog::Load(const std::string& header, const AnswerFits& fits) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path_));
  std::string good;  // the lines that remain
  size_t begin = 0;
  int64_t number = 0;
  for (size_t end; (end = text.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string line = text.substr(begin, end + 1 - begin);
    if (++number == 1) {
      good = line;
      continue;
    }
    std::optional<ExampleAnswer> answer = FromLine(line);
    if (!answer) {
      ++num_damaged_;
      continue;
    }
    if (!fits(*answer)) {
      return absl::DataLossError(
          absl::StrCat(path_.string(), ":", number,
                       ": not an answer to an example of the task; remove the file to evaluate "
                       "again"));
    }
    good += line;
    const int64_t example = answer->example;
    answers_[example] = *std::move(answer);
  }
  return Replace(text, good.empty() ? header + "\n" : good);
}

absl::Status AnswerLog::Append(const ExampleAnswer& answer) {
  RETURN_IF_ERROR(Write(SealedLine(ToJson(answer))));
  answers_[answer.example] = answer;
  return absl::OkStatus();
}

// Replaces the content of the file, in place because the lock belongs to this file. A kill in
// between loses answers, which are then evaluated again.
absl::Status AnswerLog::Replace(const std::string& before, const std::string& after) {
  const auto same = static_cast<size_t>(std::ranges::mismatch(before, after).in1 - before.begin());
  if (same < before.size() && ftruncate(descriptor_, static_cast<off_t>(same)) != 0) {
    return SystemError("truncate", path_, errno);
  }
  return same < after.size() ? Write(std::string_view(after).substr(same)) : absl::OkStatus();
}

absl::Status AnswerLog::Write(std::string_view text) {
  const ssize_t written = write(descriptor_, text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return absl::OkStatus();
  return SystemError("write", path_, written < 0 ? errno : ENOSPC);
}

}  // namespace braid
