#include "formats/event_file.h"

#include <algorithm>
#include <bit>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "base/crc32c.h"

namespace braid {
namespace {

constexpr std::string_view kPrefix = "events.out.tfevents.";
constexpr int kDigits = 10;

template <class Integer>
void AppendLittleEndian(Integer value, std::string* bytes) {
  for (size_t i = 0; i < sizeof(value); ++i) bytes->push_back(static_cast<char>(value >> (8 * i)));
}

bool IsPlain(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_' || c == '.';
}

// Returns the seconds in the name of an event file; 0 for other names.
int64_t SecondsOf(std::string_view name) {
  if (!name.starts_with(kPrefix)) return 0;
  name.remove_prefix(kPrefix.size());
  if (name.find('.') != kDigits) return 0;
  int64_t seconds = 0;
  const std::string digits(name.substr(0, kDigits));
  return absl::SimpleAtoi(digits, &seconds) ? std::max<int64_t>(seconds, 0) : 0;
}

}  // namespace

uint32_t MaskedCrc32c(std::string_view data) {
  return std::rotr(Crc32c(data), 15) + uint32_t{0xA282EAD8};
}

std::string EventRecord(std::string_view data) {
  std::string record;
  record.reserve(data.size() + 16);
  AppendLittleEndian(static_cast<uint64_t>(data.size()), &record);
  AppendLittleEndian(MaskedCrc32c(record), &record);
  record += data;
  AppendLittleEndian(MaskedCrc32c(data), &record);
  return record;
}

std::string EventFileName(int64_t unix_seconds, std::string_view host, int64_t process) {
  std::string plain(host);
  std::ranges::replace_if(
      plain, [](char c) { return !IsPlain(c); }, '_');
  return absl::StrFormat("%s%0*d.%s.%d.0", kPrefix, kDigits, unix_seconds,
                         plain.empty() ? "host" : plain, process);
}

int64_t SecondsAfterOthers(const std::filesystem::path& directory, int64_t now) {
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    now = std::max(now, SecondsOf(entry->path().filename().string()) + 1);
  }
  return now;
}

}  // namespace braid
