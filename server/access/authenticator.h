// Who a caller is, from what its call and its connection show.
#ifndef BRAID_SERVER_ACCESS_AUTHENTICATOR_H_
#define BRAID_SERVER_ACCESS_AUTHENTICATOR_H_

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_policy.h"
#include "server/access/token_file.h"

namespace braid {

struct Caller {
  std::string name;
  Role role = Role::kViewer;
};

struct CallerEvidence {
  // The value of the call's "authorization" metadata.
  std::optional<std::string> authorization = {};
  // Common name and subject alternative names of the connection's verified certificate.
  std::vector<std::string> certificate_names = {};
};

// Why a call was refused: a label of metrics and of the log.
enum class Refusal { kNone, kNoToken, kBadToken, kExpiredToken, kRole, kNoPolicy, kTokenFile };
std::string_view RefusalName(Refusal refusal);

struct Identity {
  // UNAUTHENTICATED, or UNAVAILABLE while the tokens cannot be read.
  absl::Status status = {};
  Refusal refusal = Refusal::kNone;
  Caller caller = {};
};

// Thread-safe. HOME/tokens is read again when it has changed, so that a revoked token ends with
// the next call.
class Authenticator {
 public:
  // Without `required`, a call that shows nothing is "local", in the role of operator; one
  // that shows a token is checked all the same.
  // `on_problem` is told why the tokens cannot be read, once for each reason in a row.
  Authenticator(
      std::filesystem::path home, bool required,
      std::function<void(const std::string&)> on_problem = [](const std::string&) {});

  // A token decides; without one, the certificate may. `now`: Unix seconds.
  Identity Identify(const CallerEvidence& evidence, int64_t now);

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
  std::string problem_;                                           // told last; guarded by mutex_
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_AUTHENTICATOR_H_
