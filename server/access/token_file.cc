#include "server/access/token_file.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/file_error.h"
#include "base/file_lock.h"
#include "base/random_id.h"
#include "base/status_macros.h"
#include "rpc/access_token.h"

namespace braid {
namespace {

using nlohmann::json;

constexpr size_t kSecretBytes = 32;
constexpr size_t kSaltBytes = 16;
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxCertificateBytes = 256;
constexpr mode_t kMode = 0600;
constexpr int kVersion = 1;

// Returns HMAC-SHA-256 in hexadecimal.
std::string KeyedHash(std::string_view key, std::string_view data) {
  std::string hash(EVP_MAX_MD_SIZE, '\0');
  unsigned size = 0;
  const unsigned char* const made =
      HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()),
           reinterpret_cast<const unsigned char*>(data.data()), data.size(),
           reinterpret_cast<unsigned char*>(hash.data()), &size);
  BRAID_CHECK(made != nullptr) << "HMAC-SHA-256 failed";
  hash.resize(size);
  return absl::BytesToHexString(hash);
}

bool IsNameCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("._-@").find(c) != std::string_view::npos;
}

absl::Status CheckName(const std::string& name) {
  if (name == "local") {
    return absl::InvalidArgumentError(
        "name: got \"local\", which is reserved for callers without a token; choose another name");
  }
  if (!name.empty() && name.size() <= kMaxNameBytes && std::ranges::all_of(name, IsNameCharacter)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("name: got \"", absl::CHexEscape(name),
                   "\", expected 1 to 64 letters, digits, \".\", \"_\", \"-\" or \"@\""));
}

absl::Status CheckCertificateName(const std::string& name) {
  const auto plain = [](unsigned char c) { return absl::ascii_isprint(c); };
  if (name.size() <= kMaxCertificateBytes && std::ranges::all_of(name, plain)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("certificate: got \"", absl::CHexEscape(name),
                   "\", expected the common name or a subject alternative name of a certificate"));
}

// Checks that `certificate` has no entry yet: a certificate identifies one principal.
absl::Status CheckNoOther(const std::vector<AccessEntry>& entries, const std::string& certificate) {
  if (certificate.empty()) return absl::OkStatus();
  for (const AccessEntry& entry : entries) {
    // The authenticator passes over an expired entry, so it does not stand in the way of another.
    const bool expired = entry.expires_at != 0 && entry.expires_at <= std::time(nullptr);
    if (entry.certificate != certificate || expired) continue;
    return absl::AlreadyExistsError(
        absl::StrCat("certificate: \"", certificate, "\" already identifies ", entry.name,
                     "; revoke it first with 'braid token revoke ", entry.id, "'"));
  }
  return absl::OkStatus();
}

json ToJson(const AccessEntry& entry) {
  json object = {{"id", entry.id},
                 {"name", entry.name},
                 {"role", RoleName(entry.role)},
                 {"created_at", entry.created_at}};
  if (entry.expires_at != 0) object["expires_at"] = entry.expires_at;
  if (!entry.certificate.empty()) {
    object["certificate"] = entry.certificate;
  } else {
    object["salt"] = entry.salt;
    object["hash"] = entry.hash;
  }
  return object;
}

// Throws json::exception if a field is missing or has another type.
AccessEntry FromJson(const json& object) {
  AccessEntry entry;
  entry.id = object.at("id").get<std::string>();
  entry.name = object.at("name").get<std::string>();
  const std::optional<Role> role = ParseRole(object.at("role").get<std::string>());
  if (!role) throw json::other_error::create(501, "unknown role", &object);
  entry.role = *role;
  entry.created_at = object.at("created_at").get<int64_t>();
  entry.expires_at = object.value("expires_at", int64_t{0});
  entry.certificate = object.value("certificate", std::string());
  if (entry.certificate.empty()) {
    entry.salt = object.at("salt").get<std::string>();
    entry.hash = object.at("hash").get<std::string>();
  }
  return entry;
}

absl::Status WriteTokens(const std::filesystem::path& home,
                         const std::vector<AccessEntry>& entries) {
  json list = json::array();
  for (const AccessEntry& entry : entries) list.push_back(ToJson(entry));
  const json document = {{"version", kVersion}, {"entries", std::move(list)}};
  return WriteFileAtomically(TokenPath(home), document.dump(1) + "\n", Durability::kSynced, kMode);
}

// Serializes concurrent `braid token` commands, which would otherwise undo each other's changes.
absl::StatusOr<FileLock> LockTokens(const std::filesystem::path& home) {
  RETURN_IF_ERROR(MakeDirectories(home));
  // A file of its own, since each change replaces the token file, and a lock on the earlier file
  // would exclude no one.
  return FileLock::Take(home / "tokens.lock", kMode);
}

absl::Status CheckPrivate(const std::filesystem::path& path) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return SystemError("read", path, errno);
  if ((status.st_mode & (S_IRWXG | S_IRWXO)) == 0) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrFormat(
      "%s: other users may read or write it: got mode %04o, expected 0600; run chmod 600 on it",
      path.string(), status.st_mode & 07777));
}

}  // namespace

std::filesystem::path TokenPath(const std::filesystem::path& home) { return home / "tokens"; }

absl::StatusOr<std::vector<AccessEntry>> ReadTokens(const std::filesystem::path& home) {
  const std::filesystem::path path = TokenPath(home);
  const absl::StatusOr<std::string> text = ReadFile(path);
  std::vector<AccessEntry> entries;
  if (absl::IsNotFound(text.status())) return entries;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckPrivate(path));
  try {
    const json document = json::parse(*text);
    if (document.value("version", kVersion) != kVersion) {
      throw json::other_error::create(502, "unknown version", &document);
    }
    for (const json& object : document.at("entries")) entries.push_back(FromJson(object));
  } catch (const json::exception& error) {
    // error.what() is left out, since it may quote the file.
    return absl::DataLossError(absl::StrCat(path.string(), ": not a valid token file (JSON error ",
                                            error.id,
                                            "); restore it, or remove it and create new tokens"));
  }
  return entries;
}

absl::StatusOr<CreatedToken> CreateToken(const std::filesystem::path& home, const std::string& name,
                                         Role role, int64_t lifetime_seconds,
                                         const std::string& certificate) {
  RETURN_IF_ERROR(CheckName(name));
  RETURN_IF_ERROR(CheckCertificateName(certificate));
  ASSIGN_OR_RETURN(const FileLock lock, LockTokens(home));
  ASSIGN_OR_RETURN(std::vector<AccessEntry> entries, ReadTokens(home));
  RETURN_IF_ERROR(CheckNoOther(entries, certificate));
  CreatedToken created;
  AccessEntry& entry = created.entry;
  do {
    entry.id = RandomId(kTokenIdDigits);
  } while (
      std::ranges::any_of(entries, [&](const AccessEntry& other) { return other.id == entry.id; }));
  entry.name = name;
  entry.role = role;
  entry.created_at = std::time(nullptr);
  if (lifetime_seconds > 0) entry.expires_at = entry.created_at + lifetime_seconds;
  entry.certificate = certificate;
  if (certificate.empty()) {
    const std::string secret = RandomId(2 * kSecretBytes);
    entry.salt = RandomId(2 * kSaltBytes);
    entry.hash = KeyedHash(entry.salt, secret);
    created.token = absl::StrCat("braid_", entry.id, "_", secret);
  }
  entries.push_back(entry);
  RETURN_IF_ERROR(WriteTokens(home, entries));
  return created;
}

absl::StatusOr<int> RevokeTokens(const std::filesystem::path& home, const std::string& id_or_name) {
  ASSIGN_OR_RETURN(const FileLock lock, LockTokens(home));
  ASSIGN_OR_RETURN(std::vector<AccessEntry> entries, ReadTokens(home));
  const auto removed = std::erase_if(entries, [&](const AccessEntry& entry) {
    return entry.id == id_or_name || entry.name == id_or_name;
  });
  if (removed == 0) {
    return absl::NotFoundError(absl::StrCat("\"", absl::CHexEscape(id_or_name),
                                            "\" is neither the id nor the name of a token; 'braid "
                                            "token list' lists them"));
  }
  RETURN_IF_ERROR(WriteTokens(home, entries));
  return static_cast<int>(removed);
}

bool MatchesSecret(const AccessEntry& entry, std::string_view secret) {
  const std::string hash = KeyedHash(entry.salt, secret);
  return entry.hash.size() == hash.size() &&
         CRYPTO_memcmp(entry.hash.data(), hash.data(), hash.size()) == 0;
}

}  // namespace braid
