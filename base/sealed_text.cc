#include "base/sealed_text.h"

#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/crc32c.h"

namespace braid {
namespace {

constexpr std::string_view kFirstLine =
    "# Written by braid; the last line is the CRC-32C of the lines between. To accept an edit by "
    "hand, delete both.\n";
constexpr std::string_view kLastLine = "# crc32c: ";
constexpr size_t kLastLineBytes = kLastLine.size() + 9;  // eight digits and the newline

constexpr char kCrcMember[] = "crc32c";
constexpr char kCoversMember[] = "crc32c_covers";
constexpr char kCovers[] = "the other members";

std::string LastLineOf(std::string_view lines) {
  return absl::StrCat(std::string(kLastLine), Crc32cToHex(Crc32c(lines)), "\n");
}

// Returns true also for a truncated first line, so that a cut file is not taken for one without
// marks.
bool HasFirstLine(std::string_view text) {
  constexpr std::string_view kBeginning = kFirstLine.substr(0, 18);
  return text.starts_with(kBeginning) || kBeginning.starts_with(text);
}

bool HasLastLine(std::string_view text) {
  return text.size() >= kLastLineBytes &&
         text.substr(text.size() - kLastLineBytes).starts_with(kLastLine);
}

std::string CrcOfJson(const nlohmann::json& object) {
  return Crc32cToHex(Crc32c(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)));
}

absl::Status Changed(const std::filesystem::path& path, const std::string& what,
                     const std::string& remedy) {
  return absl::DataLossError(
      absl::StrCat(path.string(), ": ", what, ", so the file was damaged or edited; ", remedy));
}

}  // namespace

std::string SealLines(std::string_view lines) {
  BRAID_CHECK(lines.empty() || lines.back() == '\n') << lines.size();
  return absl::StrCat(std::string(kFirstLine), std::string(lines), LastLineOf(lines));
}

bool HasSealedLines(std::string_view text) { return HasFirstLine(text) && HasLastLine(text); }

absl::Status CheckSealedLines(std::string_view text, const std::filesystem::path& path) {
  constexpr char kRemedy[] =
      "restore it from a backup or, to accept an edit by hand, delete its first line (\"# Written "
      "by braid\") and its last line (\"# crc32c\")";
  if (text.empty()) return Changed(path, "got no content", "restore it from a backup");
  const bool first = HasFirstLine(text), last = HasLastLine(text);
  if (!first && !last) return absl::OkStatus();
  if (first != last) {
    return Changed(path, absl::StrCat("the ", first ? "last" : "first", " line is missing"),
                   kRemedy);
  }
  if (!text.starts_with(kFirstLine)) return Changed(path, "the first line is another", kRemedy);
  const std::string_view lines =
      text.substr(kFirstLine.size(), text.size() - kFirstLine.size() - kLastLineBytes);
  const std::string_view stored = text.substr(text.size() - kLastLineBytes);
  if (stored == LastLineOf(lines)) return absl::OkStatus();
  return Changed(path,
                 absl::StrCat("got CRC-32C ", Crc32cToHex(Crc32c(lines)), ", expected ",
                              std::string(stored.substr(kLastLine.size(), 8))),
                 kRemedy);
}

std::string SealJson(const nlohmann::json& object) {
  BRAID_CHECK(object.is_object() && !object.contains(kCrcMember) && !object.contains(kCoversMember))
      << object.type_name();
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  // Parsed again, since that replaces bytes that are not UTF-8.
  nlohmann::json sealed = nlohmann::json::parse(object.dump(-1, ' ', false, kReplace));
  const std::string crc = CrcOfJson(sealed);
  sealed[kCrcMember] = crc;
  sealed[kCoversMember] = kCovers;
  return sealed.dump(2) + "\n";
}

absl::StatusOr<nlohmann::json> OpenSealedJson(std::string_view text,
                                              const std::filesystem::path& path) {
  constexpr char kRemedy[] =
      "restore it from a backup or, to accept an edit by hand, delete its members \"crc32c\" and "
      "\"crc32c_covers\"";
  nlohmann::json object = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) return Changed(path, "expected a JSON object", kRemedy);
  const auto crc = object.find(kCrcMember), covers = object.find(kCoversMember);
  if (crc == object.end() && covers == object.end()) return object;
  if (crc == object.end() || covers == object.end() || *covers != kCovers) {
    return Changed(path,
                   absl::StrCat("expected both \"", kCrcMember, "\" and \"", kCoversMember, "\""),
                   kRemedy);
  }
  const nlohmann::json stored = *crc;
  object.erase(kCrcMember);
  object.erase(kCoversMember);
  if (const std::string got = CrcOfJson(object); stored != got) {
    return Changed(path, absl::StrCat("got CRC-32C ", got, ", expected ", stored.dump()), kRemedy);
  }
  return object;
}

}  // namespace braid
