// Which files a corpus consists of: paths given by a user, expanded and checked.
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_FILES_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_FILES_H_

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "pipeline/store/file_version.h"

namespace braid {

enum class CorpusFileKind { kJsonLines, kText };

struct CorpusFile {
  std::filesystem::path path;
  CorpusFileKind kind = CorpusFileKind::kText;
  // File name, or path relative to the directory given; the whole path where two would be equal.
  // UTF-8: other bytes are written "%FF".
  std::string name;
  // Domain of documents that name none.
  std::string domain;
  bool in_directory = false;
  // When it was listed.
  FileVersion version;
};

// An entry of a directory that is not read: "hidden" (name starts with a dot), "directory link",
// "not a file" (FIFO, socket, device, broken link), "unreadable" (no permission).
struct SkippedEntry {
  std::filesystem::path path;
  std::string reason;
};

struct CorpusFiles {
  std::vector<CorpusFile> files;
  std::vector<SkippedEntry> skipped;
};

// Asked every 64 entries whether to go on: what is not OK ends the listing. Null: never.
using KeepListing = std::function<absl::Status()>;

// Files in the order of `paths`, within a directory sorted by path, sub-directories included.
// Inside directories .jsonl and .ndjson files (also .gz, .zst) are JSON lines and everything else
// is text. Opens no file, so nothing can block. For a path given, NOT_FOUND, PERMISSION_DENIED, or
// INVALID_ARGUMENT for a FIFO, socket or device, for an unknown extension and for no file; errors
// of `keep_listing`.
absl::StatusOr<CorpusFiles> FindCorpusFiles(std::span<const std::string> paths,
                                            const KeepListing& keep_listing = {});

// `label` as a name that any file system takes: ASCII letters, digits, "-+._" and non-ASCII
// characters stay; others, a leading dot, an empty label and whatever is no UTF-8 become "_".
// At most 80 bytes.
std::string DomainName(std::string_view label);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_FILES_H_
