#include "pipeline/ingest_stage.h"

#include <sys/stat.h>

#include <cerrno>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/file_error.h"
#include "formats/status_macros.h"
#include "pipeline/corpus_files.h"
#include "pipeline/corpus_reader.h"
#include "pipeline/document_store.h"
#include "pipeline/json_file.h"
#include "pipeline/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr char kSummaryName[] = "ingest.json";
constexpr int64_t kDocumentsPerAdvance = 256;

std::vector<std::string> Paths(const v1::CorpusSpec& resolved) {
  return {resolved.paths().begin(), resolved.paths().end()};
}

absl::Status AddFile(const CorpusFile& file, StageKey* key) {
  struct stat status;
  if (stat(file.path.c_str(), &status) != 0) return SystemError("cannot read", file.path, errno);
  key->Add("path", file.path.string())
      .Add("name", file.name)
      .Add("domain", file.domain)
      .Add("bytes", static_cast<int64_t>(status.st_size))
      .Add("seconds", static_cast<int64_t>(status.st_mtim.tv_sec))
      .Add("nanoseconds", static_cast<int64_t>(status.st_mtim.tv_nsec));
  return absl::OkStatus();
}

// Rejected records, counted by reason and written line by line.
class RejectLog {
 public:
  static absl::StatusOr<RejectLog> Create(const std::filesystem::path& path) {
    ASSIGN_OR_RETURN(auto file, AtomicFile::Create(path));
    return RejectLog(std::move(file));
  }

  absl::Status Write(std::vector<Reject>* rejects) {
    for (const Reject& reject : *rejects) {
      ++counts_[reject.reason];
      ++num_rejects_;
      const nlohmann::json line = {
          {"file", reject.file}, {"offset", reject.offset}, {"reason", reject.reason}};
      RETURN_IF_ERROR(file_->Append(
          line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
    }
    rejects->clear();
    return absl::OkStatus();
  }

  absl::Status Commit(StageWriter* stage) {
    ASSIGN_OR_RETURN(const FileSummary summary, file_->Commit());
    stage->Add(summary, num_rejects_);
    return absl::OkStatus();
  }

  int64_t num_rejects() const { return num_rejects_; }
  const std::map<std::string, int64_t>& counts() const { return counts_; }

 private:
  explicit RejectLog(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
  std::map<std::string, int64_t> counts_;
  int64_t num_rejects_ = 0;
};

StagePosition PositionAt(int64_t bytes_read, const CorpusReader& reader,
                         const DocumentStoreWriter& documents, int64_t num_rejects) {
  return {.done = bytes_read,
          .total = reader.total_bytes(),
          .documents = documents.num_documents(),
          .rejects = num_rejects};
}

absl::Status CopyDocuments(CorpusReader* reader, const StageAdvance& advance,
                           DocumentStoreWriter* documents, RejectLog* log) {
  Document document;
  std::vector<Reject> rejects;
  while (true) {
    if (documents->num_documents() % kDocumentsPerAdvance == 0) {
      RETURN_IF_ERROR(
          advance(PositionAt(reader->bytes_read(), *reader, *documents, log->num_rejects())));
    }
    ASSIGN_OR_RETURN(const bool more, reader->Next(&document, &rejects));
    RETURN_IF_ERROR(log->Write(&rejects));
    if (!more) {
      return advance(PositionAt(reader->total_bytes(), *reader, *documents, log->num_rejects()));
    }
    RETURN_IF_ERROR(documents->Add(document.id, document.text, document.domain));
  }
}

// What was read must be what the key stands for.
absl::Status CheckUnchanged(const v1::CorpusSpec& resolved, const std::string& key) {
  ASSIGN_OR_RETURN(const std::string now, IngestKey(resolved));
  if (now == key) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "input files changed while they were read; resume the job when they are complete");
}

absl::Status WriteSummary(const CorpusReader& reader, const DocumentStoreWriter& documents,
                          const RejectLog& log, StageWriter* stage) {
  const nlohmann::json summary = {{"num_records", reader.num_accepted() + log.num_rejects()},
                                  {"num_rejected", log.num_rejects()},
                                  {"num_documents", documents.num_documents()},
                                  {"num_text_bytes", documents.num_text_bytes()},
                                  {"rejects", log.counts()}};
  return stage->AddText(kSummaryName, FormatJson(summary), 1);
}

}  // namespace

absl::StatusOr<std::string> IngestKey(const v1::CorpusSpec& resolved) {
  const v1::IngestConfig& config = resolved.ingest();
  StageKey key("ingest", kFormatVersion);
  key.Add("text_field", config.text_field())
      .Add("id_field", config.id_field())
      .Add("domain_field", config.domain_field())
      .Add("max_document_bytes", static_cast<int64_t>(config.max_document_bytes()))
      .Add("split_bytes", static_cast<int64_t>(config.split_bytes()));
  ASSIGN_OR_RETURN(const CorpusFiles files, FindCorpusFiles(Paths(resolved)));
  for (const CorpusFile& file : files.files) RETURN_IF_ERROR(AddFile(file, &key));
  for (const SkippedEntry& entry : files.skipped) {
    key.Add("skipped", entry.path.string()).Add("reason", entry.reason);
  }
  return key.Hex();
}

absl::Status Ingest(const v1::CorpusSpec& resolved, const std::string& key,
                    const StageAdvance& advance, StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto reader, CorpusReader::Open(Paths(resolved), resolved.ingest()));
  ASSIGN_OR_RETURN(DocumentStoreWriter documents, DocumentStoreWriter::Create(stage->directory()));
  ASSIGN_OR_RETURN(RejectLog log, RejectLog::Create(stage->directory() / "rejects.jsonl"));
  RETURN_IF_ERROR(CopyDocuments(reader.get(), advance, &documents, &log));
  RETURN_IF_ERROR(CheckUnchanged(resolved, key));
  RETURN_IF_ERROR(documents.Commit(stage));
  RETURN_IF_ERROR(log.Commit(stage));
  return WriteSummary(*reader, documents, log, stage);
}

absl::StatusOr<IngestSummary> ReadIngestSummary(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(directory / kSummaryName));
  IngestSummary summary;
  summary.num_records = json.value("num_records", int64_t{0});
  summary.num_rejected = json.value("num_rejected", int64_t{0});
  summary.num_documents = json.value("num_documents", int64_t{0});
  summary.num_text_bytes = json.value("num_text_bytes", int64_t{0});
  summary.rejects = json.value("rejects", std::map<std::string, int64_t>{});
  return summary;
}

}  // namespace braid
