#include "control/supervision/run_event_log.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "proto/message_json.h"
#include "proto/state_name.h"
#include "runs/run_state.h"

namespace braid {
namespace {

// First guess for the size of the tail: an event is a few hundred bytes, or a few KiB with an
// incident or with the routing of many experts.
constexpr int64_t kTailBytes = 1 << 16;

// The whole lines in the last `bytes` of a file.
struct Tail {
  std::string text;
  bool whole_file = false;
};

Tail ReadTail(const std::filesystem::path& path, int64_t bytes) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {"", true};
  const int64_t size = file.tellg();
  const int64_t begin = std::max<int64_t>(size - bytes, 0);
  Tail tail{std::string(size - begin, '\0'), begin == 0};
  file.seekg(begin);
  file.read(tail.text.data(), std::ssize(tail.text));
  // The writer may have removed a torn line since the size was read.
  tail.text.resize(std::max<std::streamsize>(file.gcount(), 0));
  tail.text.resize(tail.text.rfind('\n') + 1);
  if (begin > 0) tail.text.erase(0, tail.text.find('\n') + 1);
  return tail;
}

std::vector<std::string> LinesOf(const std::string& text) {
  std::vector<std::string> lines;
  for (size_t begin = 0, end; (end = text.find('\n', begin)) != std::string::npos;
       begin = end + 1) {
    lines.push_back(text.substr(begin, end - begin));
  }
  return lines;
}

absl::Status NotAnEvent(const std::filesystem::path& path, const std::string& line) {
  return absl::DataLossError(absl::StrCat(path.string(), ": got ", line.substr(0, 80),
                                          ", expected a RunEvent in JSON whose number is its "
                                          "line; move the file aside to resume without it"));
}

// Truncates the file after its last newline and returns the remaining length.
absl::StatusOr<int64_t> RemoveTornLine(const std::filesystem::path& path, int descriptor) {
  const int64_t size = lseek(descriptor, 0, SEEK_END);
  if (size < 0) return SystemError("seek in", path, errno);
  int64_t whole = 0;
  for (int64_t bytes = kTailBytes; whole == 0; bytes *= 4) {
    const int64_t begin = std::max<int64_t>(size - bytes, 0);
    std::string text(size - begin, '\0');
    if (pread(descriptor, text.data(), text.size(), begin) != std::ssize(text)) {
      return SystemError("read", path, errno);
    }
    const size_t newline = text.rfind('\n');
    if (newline != std::string::npos) whole = begin + static_cast<int64_t>(newline) + 1;
    if (begin == 0) break;
  }
  if (whole < size && ftruncate(descriptor, whole) != 0)
    return SystemError("truncate", path, errno);
  return whole;
}

}  // namespace

std::string RunEventLine(const v1::RunEvent& event) { return MessageToJson(event).value_or(""); }

std::optional<v1::RunEvent> ParseRunEvent(const std::string& line) {
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  v1::RunEvent event;
  if (!google::protobuf::util::JsonStringToMessage(line, &event, options).ok()) return std::nullopt;
  if (event.number() <= 0) return std::nullopt;
  return event;
}

std::optional<v1::RunEvent> ReadNewestRunEvent(const std::filesystem::path& path) {
  for (int64_t bytes = kTailBytes;; bytes *= 4) {
    const Tail tail = ReadTail(path, bytes);
    if (!tail.text.empty()) return ParseRunEvent(LinesOf(tail.text).back());
    if (tail.whole_file) return std::nullopt;
  }
}

absl::StatusOr<std::vector<v1::RunEvent>> ReadRunEvents(const std::filesystem::path& path,
                                                        int64_t after) {
  for (int64_t bytes = kTailBytes;; bytes *= 4) {
    const Tail tail = ReadTail(path, bytes);
    const std::vector<std::string> lines = LinesOf(tail.text);
    const auto first = lines.empty() ? std::nullopt : ParseRunEvent(lines.front());
    if (!tail.whole_file && (!first || first->number() > after + 1)) continue;
    std::vector<v1::RunEvent> events;
    int64_t number = tail.whole_file ? 0 : first->number() - 1;
    for (const std::string& line : lines) {
      if (++number <= after) continue;
      std::optional<v1::RunEvent> event = ParseRunEvent(line);
      if (!event || event->number() != number) return NotAnEvent(path, line);
      events.push_back(*std::move(event));
    }
    return events;
  }
}

absl::StatusOr<std::unique_ptr<RunEventLog>> RunEventLog::Open(const std::filesystem::path& path) {
  // O_APPEND, so that a write after a truncation continues at the new end of the file.
  const int descriptor = open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (descriptor < 0) return SystemError("open", path, errno);
  auto log = absl::WrapUnique(new RunEventLog(path, descriptor, 0));
  ASSIGN_OR_RETURN(log->size_, RemoveTornLine(path, descriptor));
  if (log->size_ == 0) return log;
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(path);
  if (!newest) return NotAnEvent(path, "something else in its last line");
  log->last_number_ = newest->number();
  log->state_ = newest->state();
  return log;
}

RunEventLog::~RunEventLog() { close(descriptor_); }

absl::Status RunEventLog::Append(v1::RunEvent* event) {
  if (event->state() == v1::RUN_STATE_UNSPECIFIED) event->set_state(state_);
  if (event->state() != state_ && !IsLegalTransition(state_, event->state())) {
    return absl::FailedPreconditionError(absl::StrCat(path_.string(), ": illegal transition from ",
                                                      StateName(state_), " to ",
                                                      StateName(event->state())));
  }
  event->set_number(last_number_ + 1);
  const std::string line = RunEventLine(*event) + "\n";
  // A step that a power cut removes is read again from metrics.jsonl; other events are only here.
  const bool is_step = event->has_metrics() && !event->has_incident() && !event->has_slow_rank();
  RETURN_IF_ERROR(WriteLine(line, /*flush=*/!is_step));
  last_number_ = event->number();
  state_ = event->state();
  return absl::OkStatus();
}

absl::Status RunEventLog::WriteLine(const std::string& line, bool flush) {
  if (torn_ && ftruncate(descriptor_, size_) != 0) return SystemError("truncate", path_, errno);
  // Until the write has succeeded: if the truncation below fails too, the next write begins with
  // it.
  torn_ = true;
  const ssize_t written = write(descriptor_, line.data(), line.size());
  // A short write without an error is taken for a full disk.
  int error = written < 0 ? errno : ENOSPC;
  const char* const operation = written == std::ssize(line) ? "flush" : "write";
  if (written == std::ssize(line)) error = flush && fsync(descriptor_) != 0 ? errno : 0;
  // An event that was written but not flushed is removed too: the caller may repeat the call, which
  // would record it twice. What cannot be removed now is removed before the next write.
  if (error != 0 && ftruncate(descriptor_, size_) == 0) torn_ = false;
  if (error != 0) return SystemError(operation, path_, error);
  torn_ = false;
  size_ += written;
  return absl::OkStatus();
}

}  // namespace braid
