#include "rpc/client_token.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "rpc/access_token.h"

namespace braid {
namespace {

absl::StatusOr<std::string> CheckToken(const std::string& text, const std::string& where) {
  std::string token(absl::StripAsciiWhitespace(text));
  // gRPC ends the program when the value of a header has other bytes.
  const bool is_printable = std::ranges::all_of(token, absl::ascii_isgraph);
  if (!SplitToken(token).secret.empty() && is_printable) return token;
  return absl::InvalidArgumentError(absl::StrCat(
      where,
      ": got text that is not a token, expected braid_... as printed by 'braid token create'"));
}

absl::StatusOr<std::string> ReadTokenFile(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  struct stat status;
  if (stat(path.c_str(), &status) == 0 && (status.st_mode & (S_IRWXG | S_IRWXO)) != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path.string(), ": the token file can be read by other users; run chmod 600 on it"));
  }
  return CheckToken(text, path.string());
}

}  // namespace

absl::StatusOr<std::string> ReadClientToken(const std::filesystem::path& file,
                                            const std::filesystem::path& fallback) {
  if (!file.empty()) return ReadTokenFile(file);
  if (const char* const token = std::getenv("BRAID_TOKEN"); token != nullptr && *token != '\0') {
    return CheckToken(token, "$BRAID_TOKEN");
  }
  std::error_code error;
  if (!fallback.empty() && std::filesystem::exists(fallback, error)) return ReadTokenFile(fallback);
  return "";
}

}  // namespace braid
