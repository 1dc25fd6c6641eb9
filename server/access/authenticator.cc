#include "server/access/authenticator.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rpc/access_token.h"

namespace braid {
namespace {

constexpr std::array<std::string_view, 7> kRefusalNames = {
    "none", "no_token", "bad_token", "expired_token", "role", "no_policy", "token_file"};

Identity Refused(Refusal refusal, const char* message) {
  return {absl::UnauthenticatedError(message), refusal};
}

Identity Known(const AccessEntry& entry, int64_t now) {
  if (entry.expires_at != 0 && now >= entry.expires_at) {
    return Refused(Refusal::kExpiredToken,
                   entry.certificate.empty()
                       ? "the token has expired; ask an operator for a new one"
                       : "the entry of your certificate has expired; ask an operator to create it "
                         "again");
  }
  return {absl::OkStatus(), Refusal::kNone, {entry.name, entry.role, entry.id}};
}

// Returns TOKEN of "Bearer TOKEN"; the scheme is case-insensitive (RFC 7235).
std::string_view BearerToken(std::string_view authorization) {
  constexpr std::string_view kScheme = "bearer ";
  if (!absl::StartsWithIgnoreCase({authorization.data(), authorization.size()},
                                  {kScheme.data(), kScheme.size()})) {
    return {};
  }
  return authorization.substr(kScheme.size());
}

Identity IdentifyByToken(const std::vector<AccessEntry>& entries, std::string_view authorization,
                         int64_t now) {
  const TokenParts parts = SplitToken(BearerToken(authorization));
  // An unknown id takes the same time as a known one, so that timing does not reveal which exist.
  static const AccessEntry* const nobody =
      new AccessEntry{.salt = std::string(32, '0'), .hash = std::string(64, '0')};
  const AccessEntry* entry = nobody;
  for (const AccessEntry& candidate : entries) {
    // The entry of a certificate has no secret that could be compared.
    if (candidate.certificate.empty() && candidate.id == parts.id) entry = &candidate;
  }
  if (!MatchesSecret(*entry, parts.secret) || entry == nobody) {
    return Refused(Refusal::kBadToken,
                   "the token is not known to this server: it was mistyped, revoked, or created "
                   "for another server");
  }
  return Known(*entry, now);
}

// An expired entry does not hide a later one that has not expired.
std::optional<Identity> IdentifyByCertificate(const std::vector<AccessEntry>& entries,
                                              const std::vector<std::string>& names, int64_t now) {
  std::optional<Identity> found;
  for (const AccessEntry& entry : entries) {
    if (entry.certificate.empty() || std::ranges::find(names, entry.certificate) == names.end()) {
      continue;
    }
    found = Known(entry, now);
    if (found->status.ok()) break;
  }
  return found;
}

}  // namespace

std::string_view RefusalName(Refusal refusal) {
  return kRefusalNames[static_cast<size_t>(refusal)];
}

Authenticator::Authenticator(std::filesystem::path home, bool required,
                             std::function<void(const std::string&)> on_problem)
    : home_(std::move(home)), required_(required), on_problem_(std::move(on_problem)) {}

Authenticator::FileStamp Authenticator::Stamp() const {
  struct stat status;
  if (stat(TokenPath(home_).c_str(), &status) != 0) return {};
  // The time of change, not of modification: chmod changes it as well, and ReadTokens refuses a
  // file that other users may read.
  return {.inode = status.st_ino,
          .bytes = status.st_size,
          .changed_ns = int64_t{status.st_ctim.tv_sec} * 1'000'000'000 + status.st_ctim.tv_nsec};
}

absl::StatusOr<std::vector<AccessEntry>> Authenticator::Entries() {
  const std::lock_guard lock(mutex_);
  // The stamp is taken before the file is read, so that the next call notices a change in between.
  const FileStamp stamp = Stamp();
  // After a failure, which may have been a lack of descriptors, the file is read again.
  if (!read_.has_value() || !read_->ok() || stamp != read_at_) {
    read_ = ReadTokens(home_);
    read_at_ = stamp;
    std::string problem(read_->status().message());
    if (!problem.empty() && problem != problem_)
      on_problem_("cannot read the token file: " + problem);
    problem_ = std::move(problem);
  }
  // A copy, since another call may read the file again once the lock is released.
  return *read_;
}

std::optional<std::set<std::string>> Authenticator::ValidEntries(int64_t now) {
  const absl::StatusOr<std::vector<AccessEntry>> entries = Entries();
  if (!entries.ok()) return std::nullopt;
  std::set<std::string> valid;
  for (const AccessEntry& entry : *entries) {
    if (entry.expires_at == 0 || now < entry.expires_at) valid.insert(entry.id);
  }
  return valid;
}

Identity Authenticator::Identify(const CallerEvidence& evidence, int64_t now) {
  // Decided without the token file, so a damaged one does not affect such callers.
  if (!evidence.authorization && !required_ && evidence.certificate_names.empty()) {
    return {absl::OkStatus(), Refusal::kNone, {"local", Role::kOperator}};
  }
  const absl::StatusOr<std::vector<AccessEntry>> entries = Entries();
  if (!entries.ok()) {
    return {absl::UnavailableError(
                "the server cannot read its token file; the log of the server has the reason"),
            Refusal::kTokenFile};
  }
  if (evidence.authorization) return IdentifyByToken(*entries, *evidence.authorization, now);
  if (auto known = IdentifyByCertificate(*entries, evidence.certificate_names, now)) return *known;
  // TLS with --insecure: callers have certificates, which do not need an entry.
  if (!required_) return {absl::OkStatus(), Refusal::kNone, {"local", Role::kOperator}};
  return Refused(
      Refusal::kNoToken,
      "this server requires a token; pass it with --token-file FILE, $BRAID_TOKEN or, "
      "over TLS, ~/.braid/token, and create one on the server with 'braid token create'");
}

}  // namespace braid
