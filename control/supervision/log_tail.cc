#include "control/supervision/log_tail.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"

namespace braid {

std::string LogTail(const RunDirectory& run, int64_t max_bytes) {
  std::ifstream in(run.log(), std::ios::binary | std::ios::ate);
  if (!in) return "";
  const int64_t size = in.tellg();
  const int64_t start = std::max<int64_t>(0, size - max_bytes);
  in.seekg(start);
  std::string tail(std::istreambuf_iterator<char>(in), {});
  if (start > 0) tail.erase(0, tail.find('\n') + 1);
  return std::string(absl::StripAsciiWhitespace(tail));
}

}  // namespace braid
