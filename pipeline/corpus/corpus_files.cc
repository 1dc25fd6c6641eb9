#include "pipeline/corpus/corpus_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/file_error.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "pipeline/corpus/text_source.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxDomainBytes = 80;
constexpr int64_t kEntriesPerCheck = 64;

// "a/Wiki.JSONL.zst" -> {"Wiki", ".jsonl"}
struct NameParts {
  std::string stem;
  std::string extension;
};

NameParts SplitName(const fs::path& path) {
  fs::path name = path.filename();
  if (!CompressionOf(name).empty()) name = name.stem();
  return {name.stem().string(), absl::AsciiStrToLower(name.extension().string())};
}

// Parquet compresses its pages itself.
bool IsParquet(const fs::path& path) {
  return absl::AsciiStrToLower(path.extension().string()) == ".parquet";
}

// Returns whether the path is the .bin or the .idx of an indexed dataset.
bool IsIndexedDataset(const fs::path& path) {
  if (path.extension() != ".bin" && path.extension() != ".idx") return false;
  std::error_code error;
  return fs::is_regular_file(fs::path(path).replace_extension(".bin"), error) &&
         fs::is_regular_file(fs::path(path).replace_extension(".idx"), error);
}

std::optional<CorpusFileKind> KindOfFile(const fs::path& path) {
  const std::string extension = SplitName(path).extension;
  if (extension == ".jsonl" || extension == ".json" || extension == ".ndjson") {
    return CorpusFileKind::kJsonLines;
  }
  if (extension == ".txt") return CorpusFileKind::kText;
  if (IsParquet(path)) return CorpusFileKind::kParquet;
  if (IsIndexedDataset(path)) return CorpusFileKind::kTokens;
  return std::nullopt;
}

// Returns the kind of a file in a directory. There a .json file is most likely a configuration
// file, not a corpus, unless it is compressed.
CorpusFileKind KindInDirectory(const fs::path& path) {
  const std::string extension = SplitName(path).extension;
  if (IsParquet(path)) return CorpusFileKind::kParquet;
  if (IsIndexedDataset(path)) return CorpusFileKind::kTokens;
  const bool lines = extension == ".jsonl" || extension == ".ndjson" ||
                     (extension == ".json" && !CompressionOf(path).empty());
  return lines ? CorpusFileKind::kJsonLines : CorpusFileKind::kText;
}

// Converts a file name, which may have any encoding, to UTF-8 for ids and messages.
std::string Utf8Name(const fs::path& path) {
  if (IsValidUtf8(path.native())) return path.native();
  std::string name;
  for (const char c : path.native()) {
    if ((c & 0x80) == 0) {
      name += c;
    } else {
      absl::StrAppendFormat(&name, "%%%02X", static_cast<unsigned char>(c));
    }
  }
  return name;
}

absl::Status AddFile(const fs::path& given, CorpusFiles* found) {
  const std::optional<CorpusFileKind> kind = KindOfFile(given);
  fs::path path = given;
  if (kind == CorpusFileKind::kTokens) {
    path.replace_extension(".bin");
    // Patterns such as "data/*", or "data/*.bin" and "data/*.idx", name both files.
    const auto is_path = [&](const CorpusFile& file) {
      return file.path.native() == path.native();
    };
    if (std::ranges::any_of(found->files, is_path)) return absl::OkStatus();
  }
  if (!kind) {
    // A pipe of the shell, such as /dev/fd/63, has no extension either.
    RETURN_IF_ERROR(ReadableFileVersion(path).status());
    return absl::InvalidArgumentError(
        absl::StrCat("corpus path ", path.string(), ": unknown kind of file: got the extension \"",
                     path.extension().string(),
                     "\", expected .parquet, or .jsonl, .json, .ndjson or .txt with or without "
                     ".gz, .zst or .zstd, or .bin and .idx (tokens), or a "
                     "directory, in which every UTF-8 file is read as a document"));
  }
  CorpusFile file;
  file.path = path;
  file.kind = *kind;
  file.name = Utf8Name(path.filename());
  file.domain = DomainName(SplitName(path).stem);
  ASSIGN_OR_RETURN(file.version, ReadableFileVersion(path));
  found->files.push_back(std::move(file));
  return absl::OkStatus();
}

std::string DirectoryName(const fs::path& directory) {
  std::error_code error;
  const fs::path whole = fs::weakly_canonical(directory, error);
  return whole.has_filename() ? whole.filename().string() : "root";
}

absl::Status AddDirectoryFile(const fs::path& directory, const fs::path& path, CorpusFiles* found) {
  const absl::StatusOr<FileVersion> version = ReadableFileVersion(path);
  if (absl::IsPermissionDenied(version.status())) {
    found->skipped.push_back({path, "unreadable"});
    return absl::OkStatus();
  }
  RETURN_IF_ERROR(version.status());
  const fs::path relative = path.lexically_relative(directory);
  CorpusFile file;
  file.path = path;
  file.kind = KindInDirectory(path);
  file.name = Utf8Name(relative);
  file.in_directory = true;
  file.domain = DomainName(relative.has_parent_path() ? relative.begin()->string()
                                                      : DirectoryName(directory));
  file.version = *version;
  found->files.push_back(std::move(file));
  return absl::OkStatus();
}

bool MayEnter(const fs::path& directory) {
  return faccessat(AT_FDCWD, directory.c_str(), R_OK | X_OK, AT_EACCESS) == 0;
}

// Returns the reason for skipping an entry, or "".
std::string SkipReason(const fs::directory_entry& entry) {
  std::error_code error;
  if (entry.path().filename().string().starts_with(".")) return "hidden";
  if (entry.is_directory(error)) {
    if (entry.is_symlink(error)) return "directory link";
    return MayEnter(entry.path()) ? "" : "unreadable";
  }
  return entry.is_regular_file(error) ? "" : "not a file";
}

absl::Status AddDirectory(const fs::path& directory, const KeepListing& next_entry,
                          CorpusFiles* found) {
  std::vector<fs::path> paths;
  std::error_code error;
  fs::recursive_directory_iterator it(directory, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    RETURN_IF_ERROR(next_entry());
    const std::string reason = SkipReason(*it);
    if (!reason.empty()) {
      found->skipped.push_back({it->path(), reason});
      it.disable_recursion_pending();
    } else if (!it->is_directory(error) &&
               !(it->path().extension() == ".idx" && IsIndexedDataset(it->path()))) {
      paths.push_back(it->path());
    }
  }
  if (error) return SystemError("read directory", directory, error.value());
  std::ranges::sort(paths);
  for (const fs::path& path : paths) {
    RETURN_IF_ERROR(next_entry());
    RETURN_IF_ERROR(AddDirectoryFile(directory, path, found));
  }
  return absl::OkStatus();
}

absl::Status AddPath(const std::string& given, const KeepListing& next_entry, CorpusFiles* found) {
  RETURN_IF_ERROR(next_entry());
  fs::path path(given);
  if (!path.has_filename() && path.has_parent_path()) path = path.parent_path();  // "a/" -> "a"
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) {
    if (IsIndexedDatasetPrefix(given)) return AddFile(fs::path(given) += ".bin", found);
    // An absolute path does not depend on the working directory.
    const std::string within =
        path.is_absolute()
            ? ""
            : absl::StrCat(" (working directory ", fs::current_path(error).string(), ")");
    return absl::NotFoundError(absl::StrCat("corpus path ", given, ": no such file or directory",
                                            within, "; check the spelling of the path"));
  }
  if (error) {
    const absl::Status failed = SystemError("read", path, error.value());
    const bool loop = error == std::errc::too_many_symbolic_link_levels;
    return loop ? absl::InvalidArgumentError(failed.message()) : failed;
  }
  if (fs::is_directory(status)) return AddDirectory(path, next_entry, found);
  return AddFile(path, found);
}

// Keeps a file that several of the given paths name only where it was found first.
void SkipRepeatedFiles(CorpusFiles* found) {
  std::set<std::string> seen;
  std::vector<CorpusFile> files;
  for (CorpusFile& file : found->files) {
    if (seen.insert(file.path.native()).second) {
      files.push_back(std::move(file));
    } else {
      found->skipped.push_back({std::move(file.path), "repeated file"});
    }
  }
  found->files = std::move(files);
}

// Makes the names of all files different, because document ids are derived from them.
void MakeNamesUnique(std::vector<CorpusFile>* files) {
  std::map<std::string, int> uses;
  for (const CorpusFile& file : *files) ++uses[file.name];
  for (CorpusFile& file : *files) {
    if (uses[file.name] > 1) file.name = Utf8Name(file.path);
  }
}

bool IsNameCharacter(char c) {
  return (c & 0x80) != 0 || std::isalnum(static_cast<unsigned char>(c)) != 0 ||
         std::string_view("-+._").find(c) != std::string_view::npos;
}

}  // namespace

bool IsIndexedDatasetPrefix(const fs::path& path) {
  std::error_code error;
  return !fs::exists(path, error) && IsIndexedDataset(fs::path(path) += ".bin");
}

absl::StatusOr<CorpusFiles> FindCorpusFiles(std::span<const std::string> paths,
                                            const KeepListing& keep_listing) {
  if (paths.empty()) {
    return absl::InvalidArgumentError(
        "corpus: got no paths, expected Parquet, JSON lines or text files, or directories");
  }
  const KeepListing next_entry = [&keep_listing, entries = int64_t{0}]() mutable {
    const bool check = keep_listing && ++entries % kEntriesPerCheck == 0;
    return check ? keep_listing() : absl::OkStatus();
  };
  CorpusFiles found;
  for (const std::string& path : paths) RETURN_IF_ERROR(AddPath(path, next_entry, &found));
  if (found.files.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "corpus ", paths[0], paths.size() > 1 ? " and others" : "", ": no files to read: got ",
        found.skipped.size(), " hidden or special entries, expected at least one file"));
  }
  // Files in one directory differ.
  if (paths.size() > 1) SkipRepeatedFiles(&found);
  std::ranges::sort(found.skipped, {}, &SkippedEntry::path);
  MakeNamesUnique(&found.files);
  return found;
}

bool IsStructuredText(const CorpusFile& file) {
  constexpr std::array<std::string_view, 6> kExtensions = {".json", ".csv", ".tsv",
                                                           ".html", ".htm", ".xml"};
  return file.in_directory && file.kind == CorpusFileKind::kText &&
         std::ranges::count(kExtensions, SplitName(file.path).extension) > 0;
}

std::string DomainName(std::string_view label) {
  std::string name(label.substr(0, Utf8PrefixLength(label, kMaxDomainBytes)));
  // The names of directories may have any encoding, but domain names are written to JSON.
  const bool utf8 = IsValidUtf8(name);
  std::ranges::replace_if(
      name, [&](char c) { return !IsNameCharacter(c) || (!utf8 && (c & 0x80) != 0); }, '_');
  if (name.empty()) return "_";
  if (name.front() == '.') name.front() = '_';
  return name;
}

absl::StatusOr<TokenizerFile> ReadClientTokenizer(const std::string& path) {
  return ReadTokenizerFile(
      path, [](const std::filesystem::path& part) { return ClientRoots().Read(part.string()); });
}

}  // namespace braid
