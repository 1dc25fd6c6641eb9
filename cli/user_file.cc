#include "cli/user_file.h"

#include <cerrno>
#include <cstdio>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"

namespace braid {

absl::StatusOr<std::string> ReadUserFile(const std::string& path) {
  constexpr size_t kMaxBytes = size_t{64} << 20;
  std::FILE* const file = std::fopen(path.c_str(), "rbe");
  if (file == nullptr) return SystemError("open", path, errno);
  const absl::Cleanup close = [file] { std::fclose(file); };
  std::string text, block(1 << 16, '\0');
  while (const size_t count = std::fread(block.data(), 1, block.size(), file)) {
    text.append(block, 0, count);
    if (text.size() > kMaxBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": got more than ", kMaxBytes >> 20, " MiB, expected a text file"));
    }
  }
  if (std::ferror(file) != 0) return SystemError("read", path, errno);
  return text;
}

}  // namespace braid
