#include "runs/run_directory.h"

#include <algorithm>
#include <fstream>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "google/protobuf/text_format.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "proto/config_text.h"
#include "runs/metrics_line.h"
#include "runs/metrics_reader.h"
#include "runs/run_spec.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// A metrics line is a few hundred bytes. With routing of many layers and experts it may exceed this
// limit; then the whole file is read.
constexpr int64_t kTailBytes = 1 << 16;

template <class Message>
std::optional<Message> FromJson(const std::string& text) {
  Message message;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  if (!google::protobuf::util::JsonStringToMessage(text, &message, options).ok()) {
    return std::nullopt;
  }
  return message;
}

// Returns the complete lines in the last `limit` bytes of a file, without a first line that is cut
// and a last one without newline.
std::string WholeLinesAtEnd(const fs::path& path, int64_t limit) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return "";
  const int64_t size = static_cast<int64_t>(file.tellg());
  const int64_t begin = std::max<int64_t>(size - limit, 0);
  std::string text(size - begin, '\0');
  file.seekg(begin);
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  const size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);
  if (begin > 0) text.erase(0, std::min(text.find('\n'), text.size() - 1) + 1);
  return text;
}

}  // namespace

absl::Status RunDirectory::WriteSpec(const v1::RunSpec& run_spec) const {
  RETURN_IF_ERROR(MakeDirectories(root_));
  std::string text;
  google::protobuf::TextFormat::PrintToString(run_spec, &text);
  return WriteFileAtomically(spec(), SealLines(text));
}

absl::StatusOr<v1::RunSpec> RunDirectory::ReadSpec() const {
  absl::StatusOr<std::string> text = ReadFile(spec());
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat(root_.string(), " is not a run directory: run.textproto is missing"));
  }
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedLines(*text, spec()));
  v1::RunSpec result;
  RETURN_IF_ERROR(ParseConfig(*text, spec().string(), &result));
  SetNegativesToZero(&result);
  return result;
}

absl::Status RunDirectory::SealSpec() const {
  RETURN_IF_ERROR(ReadSpec().status());
  ASSIGN_OR_RETURN(std::string text, ReadFile(spec()));
  if (HasSealedLines(text)) return absl::OkStatus();
  if (text.back() != '\n') text += '\n';
  return WriteFileAtomically(spec(), SealLines(text));
}

absl::StatusOr<std::vector<v1::StepMetrics>> RunDirectory::ReadMetrics(int64_t after_line) const {
  std::vector<v1::StepMetrics> result;
  MetricsReader reader(*this);
  while (reader.NextLine()) {
    if (reader.line_number() <= after_line) continue;
    ASSIGN_OR_RETURN(result.emplace_back(), reader.Parse());
  }
  if (result.empty() && after_line > 0) return result;
  RETURN_IF_ERROR(reader.CheckEnd(result.empty() ? 0 : result.back().step()));
  return result;
}

std::vector<v1::StepMetrics> RunDirectory::ReadRecentMetrics(int64_t limit) const {
  std::string text = WholeLinesAtEnd(metrics(), kTailBytes);
  if (text.empty()) text = WholeLinesAtEnd(metrics(), INT64_MAX);
  std::vector<v1::StepMetrics> result;
  while (!text.empty() && std::ssize(result) < limit) {
    text.pop_back();
    const size_t start = text.rfind('\n') + 1;
    v1::StepMetrics parsed;
    if (!ParseMetricsLine(text.substr(start), &parsed)) break;
    result.push_back(std::move(parsed));
    text.resize(start);
  }
  std::reverse(result.begin(), result.end());
  return result;
}

std::optional<v1::StepMetrics> RunDirectory::ReadNewestMetrics() const {
  std::vector<v1::StepMetrics> newest = ReadRecentMetrics(1);
  if (newest.empty()) return std::nullopt;
  return std::move(newest.front());
}

absl::Status RunDirectory::WriteExit(const ExitRecord& record, int rank) const {
  const nlohmann::json json = {{"outcome", record.outcome},
                               {"error", record.error},
                               {"step", record.step},
                               {"nonce", record.nonce},
                               {"retryable", record.retryable}};
  const fs::path own = root_ / absl::StrCat("exit.rank-", rank, ".json");
  RETURN_IF_ERROR(WriteFileAtomically(own, SealJson(json)));
  std::error_code error;
  fs::rename(own, exit(), error);
  return error ? SystemError("rename to", exit(), error.value()) : absl::OkStatus();
}

std::optional<ExitRecord> RunDirectory::ReadExit() const {
  absl::StatusOr<std::string> text = ReadFile(exit());
  if (!text.ok()) return std::nullopt;
  const absl::StatusOr<nlohmann::json> object = OpenSealedJson(*text, exit());
  if (!object.ok() || !object->contains("outcome") || !(*object)["outcome"].is_string()) {
    return std::nullopt;
  }
  const nlohmann::json& json = *object;
  ExitRecord record{.outcome = json["outcome"].get<std::string>(), .error = "", .step = 0};
  if (json.contains("nonce") && json["nonce"].is_string()) record.nonce = json["nonce"];
  if (json.contains("retryable") && json["retryable"].is_boolean()) {
    record.retryable = json["retryable"];
  }
  if (json.contains("error") && json["error"].is_string()) record.error = json["error"];
  if (json.contains("step") && json["step"].is_number_integer()) record.step = json["step"];
  return record;
}

absl::Status RunDirectory::RemoveExit() const {
  std::error_code error;
  fs::remove(exit(), error);
  return error ? SystemError("remove", exit(), error.value()) : absl::OkStatus();
}

absl::Status RunDirectory::WriteHeartbeat(const v1::Heartbeat& heartbeat) const {
  RETURN_IF_ERROR(MakeDirectories(heartbeats()));
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  options.always_print_primitive_fields = true;
  (void)google::protobuf::util::MessageToJsonString(heartbeat, &json, options);
  const std::string name = absl::StrCat("rank-", heartbeat.rank());
  // Each rank writes to its own temporary file, and so does a rank of a previous attempt that still
  // runs.
  const fs::path own = heartbeats() / absl::StrCat(name, ".", heartbeat.nonce(), ".new");
  RETURN_IF_ERROR(WriteFileAtomically(own, json + "\n", Durability::kRenamed));
  const fs::path path = heartbeats() / (name + ".json");
  std::error_code error;
  fs::rename(own, path, error);
  return error ? SystemError("rename to", path, error.value()) : absl::OkStatus();
}

std::vector<v1::Heartbeat> RunDirectory::ReadHeartbeats() const {
  std::vector<v1::Heartbeat> result;
  std::error_code error;
  fs::directory_iterator entry(heartbeats(), error), end;
  // Incremented without exceptions: a shared file system may fail in the middle of a listing.
  for (; !error && entry != end; entry.increment(error)) {
    if (entry->path().extension() != ".json") continue;
    absl::StatusOr<std::string> text = ReadFile(entry->path());
    if (!text.ok()) continue;
    if (auto heartbeat = FromJson<v1::Heartbeat>(*text)) result.push_back(*std::move(heartbeat));
  }
  std::sort(result.begin(), result.end(),
            [](const v1::Heartbeat& a, const v1::Heartbeat& b) { return a.rank() < b.rank(); });
  return result;
}

}  // namespace braid
