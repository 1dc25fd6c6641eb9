#include "client/metrics_files.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<std::filesystem::path> PlaceOfFile(const std::filesystem::path& directory,
                                                  const std::string& name) {
  const size_t slash = name.find('/');
  const std::string run = name.substr(0, slash);
  const std::string file = slash == std::string::npos ? "" : name.substr(slash + 1);
  for (const std::string& part : {run, file}) {
    if (part.empty() || part == "." || part == ".." || part.find('/') != std::string::npos ||
        part.find('\0') != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("server sent file name \"", name, "\", expected RUN/NAME"));
    }
  }
  return directory / run / file;
}

MetricsFiles MetricsFiles::Below(std::filesystem::path directory) {
  MetricsFiles files;
  files.directory_ = std::move(directory);
  return files;
}

MetricsFiles MetricsFiles::Into(std::filesystem::path file) {
  MetricsFiles files;
  files.single_ = std::move(file);
  return files;
}

absl::Status MetricsFiles::Begin(const std::string& name) {
  RETURN_IF_ERROR(FinishRun());
  std::filesystem::path path = single_;
  if (path.empty()) {
    ASSIGN_OR_RETURN(path, PlaceOfFile(directory_, name));
    RETURN_IF_ERROR(parents_.emplace_back().Create(path.parent_path()));
  }
  const bool repeated = std::ranges::any_of(
      written_, [&](const WrittenFile& written) { return written.path == path; });
  if (repeated) {
    return absl::InvalidArgumentError(
        absl::StrCat(path.string(),
                     " would be written for two runs; export each run once, and runs whose "
                     "directories have the same name separately"));
  }
  ASSIGN_OR_RETURN(file_, UserFile::Create(path));
  return absl::OkStatus();
}

absl::Status MetricsFiles::Take(const v1::ExportMetricsChunk& chunk) {
  if (!chunk.file_name().empty()) RETURN_IF_ERROR(Begin(chunk.file_name()));
  if (file_ == nullptr) return absl::InternalError("the server sent data before a file name");
  return file_->Append(chunk.data());
}

absl::Status MetricsFiles::FinishRun() {
  if (file_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(file_->Commit());
  written_.push_back({file_->path(), file_->size()});
  file_ = nullptr;
  return absl::OkStatus();
}

}  // namespace braid
