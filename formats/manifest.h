// manifest.json: the list of files an artefact consists of, with their lengths and
// checksums. It is written last, so a directory that has one is complete. See
// docs/formats/manifest.md.
//
//   Manifest manifest{.kind = "embed", .key = key};
//   manifest.files.push_back(MakeManifestEntry(summary, num_rows));
//   RETURN_IF_ERROR(manifest.Save(directory));
//   ...
//   ASSIGN_OR_RETURN(Manifest found, Manifest::Load(directory));
//   RETURN_IF_ERROR(found.VerifyAll(directory));
#ifndef BRAID_FORMATS_MANIFEST_H_
#define BRAID_FORMATS_MANIFEST_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/atomic_file.h"

namespace braid {

inline constexpr char kManifestName[] = "manifest.json";

struct ManifestEntry {
  std::string name;  // relative to the directory, '/' between parts
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  int64_t records = 0;  // rows, sequences, tensors, ...; what the kind says

  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

// Entry of a file just committed, in subdirectory `directory` ("" for none).
ManifestEntry MakeManifestEntry(const FileSummary& file, int64_t records,
                                std::string_view directory = "");

struct Manifest {
  std::string kind;      // what the artefact is: "embed", "checkpoint", "dataset", ...
  std::string key = {};  // identifies its content; equal keys mean equal bytes
  std::vector<ManifestEntry> files = {};
  std::map<std::string, std::string> settings = {};  // what made it, for people

  // Writes DIRECTORY/manifest.json atomically. INVALID_ARGUMENT for a file name that
  // is empty, absolute, repeated or leaves the directory, or text that is not UTF-8.
  absl::Status Save(const std::filesystem::path& directory) const;

  // NOT_FOUND when there is none; DATA_LOSS when it is not as it was saved, to the
  // byte. Does not look at the files listed.
  static absl::StatusOr<Manifest> Load(const std::filesystem::path& directory);

  // VerifyFile of every entry; the first failure.
  absl::Status VerifyAll(const std::filesystem::path& directory) const;

  // The entry of that name, or nullptr.
  const ManifestEntry* Find(std::string_view name) const;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Reads DIRECTORY/entry.name and compares length and CRC. DATA_LOSS names the file
// and both values; a missing file is NOT_FOUND.
absl::Status VerifyFile(const std::filesystem::path& directory, const ManifestEntry& entry);

// Load and VerifyAll.
absl::StatusOr<Manifest> LoadVerifiedManifest(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_FORMATS_MANIFEST_H_
