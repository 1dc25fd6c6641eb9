#include "base/process_memory.h"

#include <charconv>
#include <fstream>
#include <iterator>
#include <string>
#include <system_error>

namespace braid {
namespace {

// Returns the value of the line "NAME:   123 kB" in bytes; 0 without such a line.
int64_t BytesOf(std::string_view status, std::string_view name) {
  size_t at = status.find(name);
  if (at == status.npos) return 0;
  at = status.find_first_of("0123456789\n", at);
  if (at == status.npos) return 0;
  int64_t kibibytes = 0;
  const auto [end, error] =
      std::from_chars(status.data() + at, status.data() + status.size(), kibibytes);
  return error == std::errc() ? kibibytes * 1024 : 0;
}

}  // namespace

ProcessMemory ParseProcessMemory(std::string_view status) {
  return {BytesOf(status, "VmRSS:"), BytesOf(status, "VmHWM:")};
}

ProcessMemory ReadProcessMemory() {
  std::ifstream file("/proc/self/status");
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  return ParseProcessMemory(text);
}

}  // namespace braid
