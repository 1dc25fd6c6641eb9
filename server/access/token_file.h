// HOME/tokens: who may call a server, and in which role. Mode 0600, JSON:
//
//   {"version": 1, "entries": [
//     {"id": "6f1c20aa", "name": "ann", "role": "submitter", "created_at": 1763637123,
//      "expires_at": 1771413123, "salt": "...", "hash": "..."},
//     {"id": "09be77d1", "name": "embedder", "role": "submitter", "created_at": 1763637123,
//      "certificate": "embedder.cluster"}]}
//
// A token is "braid_<id>_<secret>" with 256 random bits of secret; only HMAC-SHA-256(salt,
// secret) is kept. A password hash made slow on purpose would add nothing: there is no
// dictionary of such secrets to try, and every call is checked.
//
// Instead of a token an entry may name a client certificate, by its common name or a subject
// alternative name: whoever holds its key is that principal.
#ifndef BRAID_SERVER_ACCESS_TOKEN_FILE_H_
#define BRAID_SERVER_ACCESS_TOKEN_FILE_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "server/access/access_policy.h"

namespace braid {

struct AccessEntry {
  // 8 hexadecimal digits; names the entry, is no secret.
  std::string id = {};
  // The principal: letters, digits, ".", "_", "-" and "@", at most 64.
  std::string name = {};
  Role role = Role::kViewer;
  // Unix seconds; 0: never.
  int64_t created_at = 0;
  int64_t expires_at = 0;
  // Hexadecimal; empty in an entry for a certificate.
  std::string salt = {};
  std::string hash = {};
  // Empty in an entry for a token.
  std::string certificate = {};
};

struct CreatedToken {
  AccessEntry entry;
  // The one time that it is seen; empty for a certificate.
  std::string token;
};

std::filesystem::path TokenPath(const std::filesystem::path& home);

// Adds an entry for a token, or for `certificate` when it is not empty. `lifetime_seconds` 0:
// for ever. INVALID_ARGUMENT for a bad name or certificate name.
absl::StatusOr<CreatedToken> CreateToken(const std::filesystem::path& home, const std::string& name,
                                         Role role, int64_t lifetime_seconds,
                                         const std::string& certificate);

// Removes the entries with this id, or all of this name, and returns how many. NOT_FOUND when
// there is none.
absl::StatusOr<int> RevokeTokens(const std::filesystem::path& home, const std::string& id_or_name);

// No entries when there is no file. FAILED_PRECONDITION when others than the owner may read or
// write it; DATA_LOSS when it is no such file.
absl::StatusOr<std::vector<AccessEntry>> ReadTokens(const std::filesystem::path& home);

// Whether `secret` is the one of `entry`, in time that does not depend on how much of it is
// right.
bool MatchesSecret(const AccessEntry& entry, std::string_view secret);

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_TOKEN_FILE_H_
