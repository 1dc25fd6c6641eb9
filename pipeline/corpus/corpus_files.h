// The files of a corpus: the paths given by a user, expanded and checked.
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
#include "formats/tokenizer_file.h"
#include "pipeline/store/file_version.h"

namespace braid {

// kTokens is a Megatron-LM indexed dataset, whose path is that of the .bin.
enum class CorpusFileKind { kJsonLines, kText, kParquet, kTokens };

struct CorpusFile {
  std::filesystem::path path;
  CorpusFileKind kind = CorpusFileKind::kText;
  // The file name, or the path relative to the given directory; the whole path if two files would
  // otherwise have the same name. UTF-8; other bytes are written as "%FF".
  std::string name;
  // The domain of documents that have no domain field.
  std::string domain;
  bool in_directory = false;
  // The version at the time of listing.
  FileVersion version;
};

// A file or an entry of a directory that is not read, with the reason: "hidden" (the name starts
// with a dot), "directory link", "not a file" (FIFO, socket, device, broken link), "unreadable" (no
// permission) or "repeated file" (another of the given paths names it first).
struct SkippedEntry {
  std::filesystem::path path;
  std::string reason;
};

struct CorpusFiles {
  std::vector<CorpusFile> files;
  std::vector<SkippedEntry> skipped;
};

// A callback that is called for every 64th entry and ends the listing by returning an error. May be
// null.
using KeepListing = std::function<absl::Status()>;

// Returns whether a path without a file is the prefix of an indexed dataset, "text" for text.bin
// and text.idx.
bool IsIndexedDatasetPrefix(const std::filesystem::path& path);

// Returns the files in the order of `paths`; those of a directory are sorted by path and include
// sub-directories. Extensions other than .bin and .idx may have any letter case. In directories,
// .jsonl and .ndjson files (also .gz, .zst, .zstd) and compressed .json files are JSON lines, a
// .bin with its .idx is an indexed dataset, and all other files are text. Opens no file, so the
// call cannot block on a FIFO.
// Errors: NOT_FOUND and PERMISSION_DENIED for a given path; INVALID_ARGUMENT for a given path that
// is a FIFO, socket, device or loop of links or has an unknown extension, and when there is no
// file; those of `keep_listing`.
absl::StatusOr<CorpusFiles> FindCorpusFiles(std::span<const std::string> paths,
                                            const KeepListing& keep_listing = {});

// Returns whether a file of a directory is one document although its extension is that of records
// or markup: .json, .csv, .tsv, .html, .htm or .xml, also compressed.
bool IsStructuredText(const CorpusFile& file);

// Returns `label` as a name that is valid on any file system, of at most 80 bytes. ASCII letters,
// digits,
// "-+._" and non-ASCII characters are kept; other characters, a leading dot, an empty label and
// bytes that are not UTF-8 become "_".
std::string DomainName(std::string_view label);

// Reads a tokenizer that a client named, with the files beside it that complete it
// (formats/tokenizer_file.h), all inside of ClientRoots(). Errors: those of ReadTokenizerFile.
absl::StatusOr<TokenizerFile> ReadClientTokenizer(const std::string& path);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_FILES_H_
