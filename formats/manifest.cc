#include "formats/manifest.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using OrderedJson = nlohmann::ordered_json;

constexpr int kManifestVersion = 1;
constexpr char kCrcKey[] = "manifest_crc32c";

// Returns whether `name` is a relative path that stays within its directory.
bool IsSafeName(const std::string& name) {
  const std::filesystem::path path(name);
  if (name.empty() || path.is_absolute() || !path.has_filename()) return false;
  return std::none_of(path.begin(), path.end(),
                      [](const auto& part) { return part == ".." || part == "."; });
}

// Returns what is wrong with the entries; nullopt if they are valid.
std::optional<std::string> FaultOf(const std::vector<ManifestEntry>& files) {
  std::set<std::string> seen;
  for (const ManifestEntry& entry : files) {
    if (!IsSafeName(entry.name)) return absl::StrCat("file name '", entry.name, "'");
    if (!seen.insert(entry.name).second) return absl::StrCat("repeated file ", entry.name);
    if (entry.bytes < 0 || entry.records < 0) return "negative count for " + entry.name;
  }
  return std::nullopt;
}

OrderedJson ToJson(const ManifestEntry& entry) {
  return {{"name", entry.name},
          {"bytes", entry.bytes},
          {"crc32c", Crc32cToHex(entry.crc32c)},
          {"records", entry.records}};
}

// Returns the JSON without the CRC of the manifest itself.
OrderedJson ToJson(const Manifest& manifest) {
  OrderedJson files = OrderedJson::array();
  for (const ManifestEntry& entry : manifest.files) files.push_back(ToJson(entry));
  return {{"version", kManifestVersion},
          {"kind", manifest.kind},
          {"key", manifest.key},
          {"files", std::move(files)},
          {"settings", manifest.settings}};
}

std::string OwnCrc(const Manifest& manifest) {
  return Crc32cToHex(Crc32c(ToJson(manifest).dump()));
}

uint32_t CrcFromHex(const std::string& text) {
  uint32_t crc = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, crc, 16);
  if (text.size() != 8 || error != std::errc() || stop != end) {
    throw std::invalid_argument("crc32c '" + text + "' is not eight hexadecimal digits");
  }
  return crc;
}

// Throws on a missing key or a wrong type.
Manifest FromJson(const OrderedJson& json) {
  Manifest manifest{json.at("kind").get<std::string>(), json.at("key").get<std::string>(), {}, {}};
  for (const OrderedJson& file : json.at("files")) {
    manifest.files.push_back({file.at("name").get<std::string>(), file.at("bytes").get<int64_t>(),
                              CrcFromHex(file.at("crc32c").get<std::string>()),
                              file.at("records").get<int64_t>()});
  }
  for (const auto& [name, value] : json.at("settings").items()) {
    manifest.settings[name] = value.get<std::string>();
  }
  return manifest;
}

// Returns the text of the file, a pure function of its contents.
std::string TextOf(const Manifest& manifest) {
  OrderedJson json = ToJson(manifest);
  json[kCrcKey] = OwnCrc(manifest);
  return json.dump(2) + "\n";
}

absl::StatusOr<Manifest> Parse(const std::string& text, const std::filesystem::path& path,
                               const std::string& hint) {
  try {
    const OrderedJson json = OrderedJson::parse(text);
    if (const int64_t version = json.at("version").get<int64_t>(); version != kManifestVersion) {
      return UnsuitableFile(path,
                            {"version", 0, absl::StrCat(version), absl::StrCat(kManifestVersion)});
    }
    Manifest manifest = FromJson(json);
    const std::string got = OwnCrc(manifest), expected = json.at(kCrcKey).get<std::string>();
    if (got != expected) return CorruptFile(path, {"CRC-32C", 0, got, expected, hint});
    if (const auto fault = FaultOf(manifest.files)) {
      return CorruptFile(path, {"entry", 0, *fault, "distinct relative names", hint});
    }
    // Text that differs from what Save writes is damage, even if it has the same meaning.
    if (text != TextOf(manifest)) {
      return CorruptFile(path, {"layout", 0, "another spelling", "the text as written", hint});
    }
    return manifest;
  } catch (const std::exception& error) {
    return CorruptFile(path, {"content", 0, error.what(), "a manifest", hint});
  }
}

}  // namespace

ManifestEntry MakeManifestEntry(const FileSummary& file, int64_t records,
                                std::string_view directory) {
  std::string name(directory);
  if (!name.empty() && name.back() != '/') name += '/';
  return {name + file.name, file.bytes, file.crc32c, records};
}

absl::StatusOr<ManifestEntry> WriteFileForManifest(const std::filesystem::path& path,
                                                   std::string_view data, int64_t records) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(file->Append(data));
  ASSIGN_OR_RETURN(const FileSummary summary, file->Commit());
  return MakeManifestEntry(summary, records);
}

absl::Status Manifest::Save(const std::filesystem::path& directory) const {
  const auto path = directory / kManifestName;
  if (const auto fault = FaultOf(files)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(), ": got ", *fault,
                     ", expected distinct paths inside the directory and counts of at least 0"));
  }
  try {
    return WriteFileAtomically(path, TextOf(*this));
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", error.what()));
  }
}

absl::StatusOr<Manifest> Manifest::Load(const std::filesystem::path& directory,
                                        std::string_view hint) {
  const auto path = directory / kManifestName;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return Parse(text, path, std::string(hint));
}

bool Manifest::IsIn(const std::filesystem::path& directory) {
  const absl::StatusOr<std::string> text = ReadFile(directory / kManifestName);
  return text.ok() && absl::StrContains(*text, kCrcKey);
}

absl::Status Manifest::VerifyAll(const std::filesystem::path& directory) const {
  for (const ManifestEntry& entry : files) RETURN_IF_ERROR(VerifyFile(directory, entry));
  return absl::OkStatus();
}

const ManifestEntry* Manifest::Find(std::string_view name) const {
  const auto found = std::find_if(files.begin(), files.end(),
                                  [&](const ManifestEntry& entry) { return entry.name == name; });
  return found == files.end() ? nullptr : &*found;
}

absl::Status VerifyFile(const std::filesystem::path& directory, const ManifestEntry& entry,
                        std::string_view hint) {
  const auto path = directory / entry.name;
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  if (error) return SystemError("find", path, error.value());
  if (static_cast<int64_t>(size) != entry.bytes) {
    return CorruptFile(path, {"length", 0, absl::StrCat(size, " bytes"),
                              absl::StrCat(entry.bytes, " bytes"), std::string(hint)});
  }
  ASSIGN_OR_RETURN(const FileSummary found, SummarizeFile(path));
  if (found.crc32c == entry.crc32c) return absl::OkStatus();
  return CorruptFile(
      path, {absl::StrCat("CRC-32C of ", entry.bytes, " bytes"), 0, Crc32cToHex(found.crc32c),
             Crc32cToHex(entry.crc32c), std::string(hint)});
}

absl::StatusOr<Manifest> LoadVerifiedManifest(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(Manifest manifest, Manifest::Load(directory));
  RETURN_IF_ERROR(manifest.VerifyAll(directory));
  return manifest;
}

}  // namespace braid
