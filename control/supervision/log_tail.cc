#include "control/supervision/log_tail.h"

#include <algorithm>
#include <fstream>
#include <iterator>

#include "absl/strings/ascii.h"
#include "base/utf8.h"

namespace braid {
namespace {

// The last line that the trainer prints about its settings when it starts.
constexpr std::string_view kLastStartLine = "BLAS kernels: ";

}  // namespace

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

std::string LogExcerpt(std::string_view log) {
  constexpr int kLines = 5;
  constexpr size_t kBytes = 400;
  const size_t start = log.rfind(kLastStartLine);
  if (start != std::string_view::npos)
    log.remove_prefix(std::min(log.find('\n', start), log.size()));
  size_t begin = log.size();
  for (int line = 0; line < kLines && begin > 0; ++line) {
    const size_t newline = log.rfind('\n', begin - 1);
    begin = newline == std::string_view::npos ? 0 : newline;
  }
  log.remove_prefix(begin);
  if (log.size() > kBytes) {
    // Whole lines, or the end of a single one.
    log.remove_prefix(log.size() - kBytes);
    const size_t newline = log.find('\n');
    if (newline + 1 < log.size()) log.remove_prefix(newline + 1);
  }
  return ReplaceInvalidUtf8(std::string(absl::StripAsciiWhitespace(std::string(log))));
}

}  // namespace braid
