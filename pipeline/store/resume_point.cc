#include "pipeline/store/resume_point.h"

#include <exception>
#include <utility>

#include "base/crc32c.h"
#include "base/file_error.h"
#include "base/status_macros.h"

namespace braid {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kVersion = 1;
constexpr char kHint[] = "Delete the directory; the stage then starts from the beginning";

Json ToJson(const ManifestEntry& entry) {
  return {{"name", entry.name},
          {"bytes", entry.bytes},
          {"crc32c", entry.crc32c},
          {"records", entry.records}};
}

Json ToJson(const std::vector<ManifestEntry>& entries) {
  Json json = Json::array();
  for (const ManifestEntry& entry : entries) json.push_back(ToJson(entry));
  return json;
}

Json ToJson(const ResumeRecord& record) {
  Json files = Json::object();
  for (const auto& [name, prefix] : record.point.files) {
    files[name] = {{"bytes", prefix.bytes}, {"crc32c", prefix.crc32c}};
  }
  Json json = {{"version", kVersion},
               {"stage", record.stage},
               {"key", record.key},
               {"step", record.point.step},
               {"position", record.point.position},
               {"finished", ToJson(record.finished)},
               {"scratch", ToJson(record.scratch)},
               {"files", std::move(files)},
               {"state", record.point.state}};
  if (record.number > 0) json["number"] = record.number;
  return json;
}

// Throws on a missing key or a wrong type, as does FromJson().
std::vector<ManifestEntry> EntriesFromJson(const Json& json) {
  std::vector<ManifestEntry> entries;
  for (const Json& entry : json) {
    entries.push_back({entry.at("name").get<std::string>(), entry.at("bytes").get<int64_t>(),
                       entry.at("crc32c").get<uint32_t>(), entry.at("records").get<int64_t>()});
  }
  return entries;
}

ResumeRecord FromJson(const Json& json) {
  ResumeRecord record = {.stage = json.at("stage").get<std::string>(),
                         .key = json.at("key").get<std::string>(),
                         .finished = EntriesFromJson(json.at("finished")),
                         .scratch = EntriesFromJson(json.at("scratch")),
                         .point = {}};
  record.point.step = json.at("step").get<std::string>();
  record.point.position = json.at("position").get<int64_t>();
  record.point.state = json.at("state");
  record.number = json.value("number", int64_t{0});
  for (const auto& [name, prefix] : json.at("files").items()) {
    record.point.files[name] = {prefix.at("bytes").get<int64_t>(),
                                prefix.at("crc32c").get<uint32_t>()};
  }
  return record;
}

// Returns the text of the file, a pure function of the record.
std::string TextOf(const ResumeRecord& record) {
  Json json = ToJson(record);
  json["record_crc32c"] = Crc32cToHex(Crc32c(json.dump()));
  return json.dump(1) + "\n";
}

}  // namespace

absl::Status ResumeRecord::Save(const std::filesystem::path& directory) const {
  return WriteFileAtomically(directory / kResumePointName, TextOf(*this));
}

absl::StatusOr<ResumeRecord> ResumeRecord::Load(const std::filesystem::path& directory) {
  const std::filesystem::path path = directory / kResumePointName;
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  try {
    ResumeRecord record = FromJson(Json::parse(text));
    // A comparison of the whole text notices a changed byte anywhere, also where the parser ignores
    // it.
    if (TextOf(record) == text) return record;
    return CorruptFile(path, {"CRC-32C", 0, "different content", "the text as written", kHint});
  } catch (const std::exception& error) {
    return CorruptFile(path, {"content", 0, error.what(), "a resume point", kHint});
  }
}

}  // namespace braid
