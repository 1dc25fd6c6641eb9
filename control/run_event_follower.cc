#include "control/run_event_follower.h"

#include <sys/stat.h>

#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "control/supervision/run_event_log.h"

namespace braid {
namespace {

// Within this range bisection ends, and lines are read one after another.
constexpr int64_t kScanBytes = 1 << 14;

// A complete line and its offset. Absent at the end of the file.
struct Line {
  int64_t begin = 0;
  std::string text;
};

std::optional<Line> ReadLine(std::ifstream& file) {
  Line line{.begin = file.tellg(), .text = {}};
  if (!std::getline(file, line.text) || file.eof()) return std::nullopt;
  return line;
}

std::optional<Line> LineAfter(std::ifstream& file, int64_t offset) {
  file.clear();
  file.seekg(offset);
  if (!ReadLine(file)) return std::nullopt;  // the rest of the line that the offset is in
  return ReadLine(file);
}

}  // namespace

int64_t RunEventFollower::SizeBytes() const {
  struct stat status;
  return stat(path_.c_str(), &status) == 0 ? status.st_size : 0;
}

// Returns the offset of a line whose number is at most `number` and close to it.
int64_t RunEventFollower::StartOf(std::ifstream& file, int64_t number) const {
  int64_t low = 0, high = SizeBytes();
  while (high - low > kScanBytes) {
    const int64_t middle = low + (high - low) / 2;
    const std::optional<Line> line = LineAfter(file, middle);
    const std::optional<v1::RunEvent> event = line ? ParseRunEvent(line->text) : std::nullopt;
    if (event && event->number() <= number) {
      low = line->begin;
    } else {
      high = middle;
    }
  }
  return low;
}

absl::StatusOr<std::vector<v1::RunEvent>> RunEventFollower::After(int64_t number,
                                                                  int64_t max_bytes) {
  std::vector<v1::RunEvent> events;
  std::ifstream file(path_, std::ios::binary);
  if (!file) return events;
  const int64_t start = number == given_ ? offset_ : number > 0 ? StartOf(file, number) : 0;
  file.clear();
  file.seekg(start);
  for (int64_t bytes = 0; bytes < max_bytes;) {
    const std::optional<Line> line = ReadLine(file);
    if (!line) break;
    std::optional<v1::RunEvent> event = ParseRunEvent(line->text);
    if (event && event->number() <= number) continue;
    const int64_t expected = number + std::ssize(events) + 1;
    if (!event || event->number() != expected) {
      return absl::DataLossError(
          absl::StrCat(path_.string(), ": got \"", line->text.substr(0, 80), "\" at byte ",
                       line->begin, ", expected event ", expected,
                       "; the file is damaged; move it aside to continue watching"));
    }
    events.push_back(*std::move(event));
    bytes += std::ssize(line->text);
    given_ = expected;
    offset_ = line->begin + std::ssize(line->text) + 1;
  }
  return events;
}

}  // namespace braid
