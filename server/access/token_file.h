// HOME/tokens: the principals that may call a server, with their roles. A JSON file of mode 0600:
//
//   {"version": 1, "entries": [
//     {"id": "6f1c20aa", "name": "ann", "role": "submitter", "created_at": 1763637123,
//      "expires_at": 1771413123, "salt": "...", "hash": "..."},
//     {"id": "09be77d1", "name": "embedder", "role": "submitter", "created_at": 1763637123,
//      "certificate": "embedder.cluster"}]}
//
// A token is "braid_<id>_<secret>" with 256 random bits of secret; only HMAC-SHA-256(salt, secret)
// is stored. A deliberately slow password hash would add no security, since random secrets cannot
// be guessed from a dictionary, and it would slow down every call.
//
// Instead of a token, an entry may name a client certificate by its common name or a subject
// alternative name: the holder of its key is that principal.
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
  // 8 hexadecimal digits that name the entry; not secret.
  std::string id = {};
  // The principal: at most 64 letters, digits, ".", "_", "-" and "@".
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
  // The token itself, which is not stored and so cannot be shown again; empty for a certificate.
  std::string token;
};

std::filesystem::path TokenPath(const std::filesystem::path& home);

// Adds an entry for a token, or for `certificate` if it is not empty. With `lifetime_seconds` 0 it
// does not expire. INVALID_ARGUMENT for an invalid name or certificate name.
absl::StatusOr<CreatedToken> CreateToken(const std::filesystem::path& home, const std::string& name,
                                         Role role, int64_t lifetime_seconds,
                                         const std::string& certificate);

// Removes the entry with this id, or all entries with this name. Returns how many were removed;
// NOT_FOUND when there are none.
absl::StatusOr<int> RevokeTokens(const std::filesystem::path& home, const std::string& id_or_name);

// Reads the entries; none when there is no file. FAILED_PRECONDITION when users other than the
// owner may read or write the file; DATA_LOSS when its content is malformed.
absl::StatusOr<std::vector<AccessEntry>> ReadTokens(const std::filesystem::path& home);

// Returns whether `secret` is the secret of `entry`. The comparison takes constant time, so that
// timing does not reveal how much of a guess is right.
bool MatchesSecret(const AccessEntry& entry, std::string_view secret);

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_TOKEN_FILE_H_
