// manifest.json: the list of files of an artifact with their lengths and checksums. It is written
// last, so a directory that contains one is complete. See docs/formats/manifest.md.
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

// Hints of errors about damage.
inline constexpr std::string_view kDamagedManifestHint =
    "Delete the directory and generate it again";
inline constexpr std::string_view kDamagedFileHint =
    "The file differs from its manifest; generate it again";

struct ManifestEntry {
  std::string name;  // relative to the directory, '/' between parts
  int64_t bytes = 0;
  uint32_t crc32c = 0;
  int64_t records = 0;  // rows, sequences or tensors, depending on the kind

  friend bool operator==(const ManifestEntry&, const ManifestEntry&) = default;
};

// Returns the entry of a committed file in subdirectory `directory` ("": none).
ManifestEntry MakeManifestEntry(const FileSummary& file, int64_t records,
                                std::string_view directory = "");

// Writes a whole file as WriteFileAtomically does and returns its entry, without a subdirectory.
absl::StatusOr<ManifestEntry> WriteFileForManifest(const std::filesystem::path& path,
                                                   std::string_view data, int64_t records);

struct Manifest {
  std::string kind;      // what the artifact is: "embed", "checkpoint", "dataset", ...
  std::string key = {};  // identifies its content; equal keys mean equal bytes
  std::vector<ManifestEntry> files = {};
  std::map<std::string, std::string> settings = {};  // how it was made, for readers

  // Writes DIRECTORY/manifest.json atomically. INVALID_ARGUMENT for a file name that is empty,
  // absolute, repeated or outside of the directory, and for text that is not UTF-8.
  absl::Status Save(const std::filesystem::path& directory) const;

  // Reads DIRECTORY/manifest.json. NOT_FOUND if it does not exist; DATA_LOSS if any byte differs
  // from what Save writes. Does not read the listed files. `hint`: what that error recommends; ""
  // for nothing.
  static absl::StatusOr<Manifest> Load(const std::filesystem::path& directory,
                                       std::string_view hint = kDamagedManifestHint);

  // Returns whether DIRECTORY/manifest.json is a manifest of braid, perhaps a damaged one, and not
  // that of another program.
  static bool IsIn(const std::filesystem::path& directory);

  // Calls VerifyFile for every entry and returns the first error.
  absl::Status VerifyAll(const std::filesystem::path& directory) const;

  // Returns the entry with that name; nullptr if there is none.
  const ManifestEntry* Find(std::string_view name) const;

  friend bool operator==(const Manifest&, const Manifest&) = default;
};

// Reads DIRECTORY/entry.name and compares its length and CRC. DATA_LOSS with the file and both
// values; NOT_FOUND if the file does not exist. `hint`: as for Manifest::Load.
absl::Status VerifyFile(const std::filesystem::path& directory, const ManifestEntry& entry,
                        std::string_view hint = kDamagedFileHint);

// Loads the manifest and verifies all its files.
absl::StatusOr<Manifest> LoadVerifiedManifest(const std::filesystem::path& directory);

}  // namespace braid

#endif  // BRAID_FORMATS_MANIFEST_H_
