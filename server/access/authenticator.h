// Identifies callers by the token of a call or the certificate of its connection.
#ifndef BRAID_SERVER_ACCESS_AUTHENTICATOR_H_
#define BRAID_SERVER_ACCESS_AUTHENTICATOR_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_policy.h"
#include "server/access/token_file.h"

namespace braid {

struct Caller {
  std::string name;
  Role role = Role::kViewer;
  // AccessEntry::id of the token or certificate; empty for a caller that needs none.
  std::string entry = {};
};

struct CallerEvidence {
  // The value of the call's "authorization" metadata.
  std::optional<std::string> authorization = {};
  // Common name and subject alternative names of the connection's verified certificate.
  std::vector<std::string> certificate_names = {};
};

// The reason why a call was refused; a label in metrics and in the log.
enum class Refusal { kNone, kNoToken, kBadToken, kExpiredToken, kRole, kNoPolicy, kTokenFile };
std::string_view RefusalName(Refusal refusal);

struct Identity {
  // OK, UNAUTHENTICATED, or UNAVAILABLE while the token file cannot be read.
  absl::Status status = {};
  Refusal refusal = Refusal::kNone;
  Caller caller = {};
};

// Looks callers up in HOME/tokens, which is read again after each change, so that a revoked token
// is refused from the next call on. Thread-safe.
class Authenticator {
 public:
  // If `required` is false, a call without a token is that of "local", an operator; a call with a
  // token is checked in any case. `on_problem` is called with the reason when the token file cannot
  // be read, once for consecutive calls with the same reason.
  Authenticator(
      std::filesystem::path home, bool required,
      std::function<void(const std::string&)> on_problem = [](const std::string&) {});

  // Identifies a caller by its token, or by its certificate if it has no token. `now`: Unix
  // seconds.
  Identity Identify(const CallerEvidence& evidence, int64_t now);
  // Returns the ids of the entries that have not expired; nullopt while the file cannot be read.
  std::optional<std::set<std::string>> ValidEntries(int64_t now);

 private:
  struct FileStamp {
    ino_t inode = 0;
    off_t bytes = -1;
    int64_t changed_ns = 0;
    friend bool operator==(const FileStamp&, const FileStamp&) = default;
  };

  absl::StatusOr<std::vector<AccessEntry>> Entries();
  FileStamp Stamp() const;

  const std::filesystem::path home_;
  const bool required_;
  const std::function<void(const std::string&)> on_problem_;
  std::mutex mutex_;
  FileStamp read_at_;                                             // guarded by mutex_
  std::optional<absl::StatusOr<std::vector<AccessEntry>>> read_;  // guarded by mutex_
  std::string problem_;  // reported last; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_AUTHENTICATOR_H_
