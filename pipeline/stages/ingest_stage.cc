#include "pipeline/stages/ingest_stage.h"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/corpus/corpus_reader.h"
#include "pipeline/stages/corpus_tokens.h"
#include "pipeline/stages/corpus_vectors.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_key.h"

namespace braid {
namespace {

constexpr int32_t kIngestFormatVersion = 1;
constexpr char kIngestSummaryName[] = "ingest.json";
constexpr int64_t kIngestDocumentsPerReport = 256;
constexpr int64_t kIngestBytesPerReport = int64_t{16} << 20;
constexpr size_t kFilesPerCheck = 64;
// Bytes of input that count as one byte of text: a filter may keep little of much input.
constexpr int64_t kInputPerText = 4;

std::vector<std::string> Paths(const v1::CorpusSpec& resolved) {
  return {resolved.paths().begin(), resolved.paths().end()};
}

absl::Status AddVersion(const std::filesystem::path& path, StageKey* key) {
  struct stat status;
  if (stat(path.c_str(), &status) != 0) return SystemError("read", path, errno);
  key->Add("bytes", static_cast<int64_t>(status.st_size))
      .Add("seconds", static_cast<int64_t>(status.st_mtim.tv_sec))
      .Add("nanoseconds", static_cast<int64_t>(status.st_mtim.tv_nsec));
  return absl::OkStatus();
}

absl::Status AddFile(const CorpusFile& file, StageKey* key) {
  key->Add("path", file.path.string()).Add("name", file.name).Add("domain", file.domain);
  RETURN_IF_ERROR(AddVersion(file.path, key));
  if (file.kind != CorpusFileKind::kTokens) return absl::OkStatus();
  return AddVersion(std::filesystem::path(file.path).replace_extension(".idx"), key);
}

bool HasTokenFiles(const CorpusFiles& files) {
  return std::ranges::any_of(
      files.files, [](const CorpusFile& file) { return file.kind == CorpusFileKind::kTokens; });
}

// The writer of rejects.jsonl.
class RejectLog {
 public:
  static absl::StatusOr<RejectLog> Resume(const std::filesystem::path& path,
                                          const CorpusReader& reader,
                                          const DurablePrefixes& synced) {
    ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(path, synced));
    return RejectLog(std::move(file), synced.empty() ? 0 : reader.num_rejected());
  }

  absl::Status Write(std::vector<Reject>* rejects) {
    for (const Reject& reject : *rejects) {
      ++num_rejects_;
      nlohmann::json line = {
          {"file", reject.file}, {"offset", reject.offset}, {"reason", reject.reason}};
      if (!reject.detail.empty()) line["detail"] = reject.detail;
      if (!reject.id.empty()) line["id"] = reject.id;
      RETURN_IF_ERROR(file_->Append(
          line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
    }
    rejects->clear();
    return absl::OkStatus();
  }

  absl::Status Sync(DurablePrefixes* synced) { return file_->Sync(synced); }

  absl::Status Commit(StageWriter* stage) {
    ASSIGN_OR_RETURN(const FileSummary summary, file_->Commit());
    stage->Add(summary, num_rejects_);
    return absl::OkStatus();
  }

 private:
  RejectLog(std::unique_ptr<AtomicFile> file, int64_t num_rejects)
      : file_(std::move(file)), num_rejects_(num_rejects) {}

  std::unique_ptr<AtomicFile> file_;
  int64_t num_rejects_;
};

nlohmann::json ToJson(const CorpusPosition& position) {
  return {{"file", position.file},
          {"offset", position.offset},
          {"inside_file", position.inside_file},
          {"text_field", position.text_field},
          {"seen_an_object", position.seen_an_object},
          {"num_accepted", position.num_accepted},
          {"num_filtered", position.num_filtered},
          {"num_field_records", position.num_field_records},
          {"embedding_dimension", position.embedding_dimension},
          {"rejects", position.rejects}};
}

// Returns the position of the corpus reader in a resume point that was loaded from `directory`.
absl::StatusOr<CorpusPosition> PositionOf(const ResumePoint& point,
                                          const std::filesystem::path& directory) {
  try {
    const nlohmann::json& json = point.state.at("position");
    return CorpusPosition{.file = json.at("file").get<int64_t>(),
                          .offset = json.at("offset").get<int64_t>(),
                          .inside_file = json.at("inside_file").get<bool>(),
                          .text_field = json.at("text_field").get<std::string>(),
                          .seen_an_object = json.at("seen_an_object").get<bool>(),
                          .num_accepted = json.at("num_accepted").get<int64_t>(),
                          .num_filtered = json.value("num_filtered", int64_t{0}),
                          // Earlier versions did not count them; one record prevents the note.
                          .num_field_records = json.value("num_field_records", int64_t{1}),
                          .embedding_dimension = json.value("embedding_dimension", int64_t{0}),
                          .rejects = json.at("rejects").get<std::map<std::string, int64_t>>()};
  } catch (const nlohmann::json::exception& error) {
    return Unresumable(directory / kResumePointName, error.what());
  }
}

// A log of the hashes of all ids, from which a resumed reader recognizes duplicate ids. It is not
// part of the output.
class IdHashLog {
 public:
  static absl::StatusOr<IdHashLog> Resume(const std::filesystem::path& path,
                                          const DurablePrefixes& synced) {
    ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(path, synced));
    return IdHashLog(std::move(file));
  }

  absl::StatusOr<std::vector<uint64_t>> Read() {
    ASSIGN_OR_RETURN(const std::string bytes, file_->ReadBack());
    std::vector<uint64_t> hashes(bytes.size() / sizeof(uint64_t));
    if (!hashes.empty()) {
      std::memcpy(hashes.data(), bytes.data(), hashes.size() * sizeof(uint64_t));
    }
    return hashes;
  }

  absl::Status Append(std::span<const uint64_t> hashes) {
    return file_->Append({reinterpret_cast<const char*>(hashes.data()), hashes.size_bytes()});
  }

  absl::Status Sync(DurablePrefixes* synced) { return file_->Sync(synced); }

 private:
  explicit IdHashLog(std::unique_ptr<AtomicFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AtomicFile> file_;
};

// One attempt at the stage.
class IngestRun {
 public:
  static absl::StatusOr<IngestRun> Resume(const v1::CorpusSpec& resolved,
                                          const KeepListing& keep_listing,
                                          const ProgressCallback& progress, StageWriter* stage);
  absl::Status CopyDocuments(const ProgressCallback& progress);
  absl::Status Commit();

 private:
  IngestRun(StageWriter* stage, std::unique_ptr<CorpusReader> reader, DocumentStoreWriter documents,
            CorpusVectorWriter vectors, CorpusTokenWriter tokens, RejectLog rejects,
            IdHashLog id_hashes)
      : stage_(stage),
        reader_(std::move(reader)),
        documents_(std::move(documents)),
        vectors_(std::move(vectors)),
        tokens_(std::move(tokens)),
        rejects_(std::move(rejects)),
        id_hashes_(std::move(id_hashes)),
        counted_text_(documents_.num_text_bytes()),
        counted_input_(reader_->bytes_read() / kInputPerText) {}
  StagePosition PositionAt(int64_t bytes_read) const;
  // Saves a resume point if one is due; returns whether it did.
  absl::StatusOr<bool> SaveIfDue();

  StageWriter* stage_;
  std::unique_ptr<CorpusReader> reader_;
  DocumentStoreWriter documents_;
  CorpusVectorWriter vectors_;
  CorpusTokenWriter tokens_;
  RejectLog rejects_;
  IdHashLog id_hashes_;
  int64_t counted_text_, counted_input_;  // considered for CountWork()
};

absl::StatusOr<IngestRun> IngestRun::Resume(const v1::CorpusSpec& resolved,
                                            const KeepListing& keep_listing,
                                            const ProgressCallback& progress, StageWriter* stage) {
  const ResumePoint& left = stage->resume_point();
  const std::filesystem::path& directory = stage->directory();
  ASSIGN_OR_RETURN(auto reader, CorpusReader::Open(Paths(resolved), resolved.ingest(), keep_listing,
                                                   resolved.tokenizer().model_path()));
  ASSIGN_OR_RETURN(auto id_hashes, IdHashLog::Resume(directory / "id_hashes", left.files));
  int64_t dimension = 0;
  if (stage->resumed()) {
    ASSIGN_OR_RETURN(const std::vector<uint64_t> hashes, id_hashes.Read());
    const auto keep_going = [&] { return progress(reader->bytes_read(), reader->total_bytes()); };
    ASSIGN_OR_RETURN(const CorpusPosition position, PositionOf(left, directory));
    dimension = position.embedding_dimension;
    const absl::Status resumed = reader->Resume(position, hashes, keep_going);
    if (absl::IsOutOfRange(resumed)) return Unresumable(directory, std::string(resumed.message()));
    RETURN_IF_ERROR(resumed);
  }
  ASSIGN_OR_RETURN(auto documents, DocumentStoreWriter::Resume(directory, left));
  ASSIGN_OR_RETURN(auto vectors, CorpusVectorWriter::Resume(directory, dimension, left.files));
  ASSIGN_OR_RETURN(auto tokens,
                   CorpusTokenWriter::Resume(directory, reader->vocab_size(), left.files));
  ASSIGN_OR_RETURN(auto rejects,
                   RejectLog::Resume(directory / "rejects.jsonl", *reader, left.files));
  return IngestRun(stage, std::move(reader), std::move(documents), std::move(vectors),
                   std::move(tokens), std::move(rejects), std::move(id_hashes));
}

// The number of chunks is unknown until the end of the input, because compressed files and markup
// make the amount of text unpredictable.
StagePosition IngestRun::PositionAt(int64_t bytes_read) const {
  return {.done = bytes_read,
          .total = reader_->total_bytes(),
          .documents = documents_.num_documents(),
          .rejects = reader_->num_rejected(),
          .chunk = documents_.num_text_bytes() / stage_->chunk_bytes() + 1};
}

absl::Status IngestRun::CopyDocuments(const ProgressCallback& progress) {
  Document document;
  std::vector<Reject> rejects;
  int64_t reported_bytes = documents_.num_text_bytes();
  RETURN_IF_ERROR(progress(PositionAt(reader_->bytes_read())));
  while (true) {
    ASSIGN_OR_RETURN(const CorpusStep step, reader_->Next(&document, &rejects));
    RETURN_IF_ERROR(rejects_.Write(&rejects));
    if (step == CorpusStep::kEnd) return progress(PositionAt(reader_->total_bytes()));
    if (step == CorpusStep::kDocument) {
      RETURN_IF_ERROR(documents_.Add(document.id, document.text, document.domain));
      if (!document.embedding.empty()) RETURN_IF_ERROR(vectors_.Add(document.embedding));
      RETURN_IF_ERROR(tokens_.Add(document.tokens));
    }
    ASSIGN_OR_RETURN(const bool saved, SaveIfDue());
    if (saved || step == CorpusStep::kNoneYet ||
        documents_.num_documents() % kIngestDocumentsPerReport == 0 ||
        documents_.num_text_bytes() - reported_bytes >= kIngestBytesPerReport) {
      reported_bytes = documents_.num_text_bytes();
      RETURN_IF_ERROR(progress(PositionAt(reader_->bytes_read())));
    }
  }
}

absl::StatusOr<bool> IngestRun::SaveIfDue() {
  const int64_t text = documents_.num_text_bytes(), input = reader_->bytes_read() / kInputPerText;
  const bool chunk_is_done = stage_->CountWork(std::max(
      text - std::exchange(counted_text_, text), input - std::exchange(counted_input_, input)));
  const std::optional<CorpusPosition> position = reader_->position();
  if (!chunk_is_done || !position) return false;
  ResumePoint point = {
      .step = "", .position = documents_.num_documents(), .files = {}, .state = {}};
  point.state["position"] = ToJson(*position);
  RETURN_IF_ERROR(documents_.Sync(&point));
  RETURN_IF_ERROR(vectors_.Sync(&point.files));
  RETURN_IF_ERROR(tokens_.Sync(&point.files));
  RETURN_IF_ERROR(rejects_.Sync(&point.files));
  RETURN_IF_ERROR(id_hashes_.Append(reader_->TakeIdHashes()));
  RETURN_IF_ERROR(id_hashes_.Sync(&point.files));
  RETURN_IF_ERROR(stage_->SaveResumePoint(std::move(point)));
  return true;
}

absl::Status IngestRun::Commit() {
  RETURN_IF_ERROR(documents_.Commit(stage_));
  RETURN_IF_ERROR(vectors_.Commit(stage_));
  RETURN_IF_ERROR(tokens_.Commit(stage_));
  RETURN_IF_ERROR(rejects_.Commit(stage_));
  nlohmann::json summary = {{"num_records", reader_->num_records()},
                            {"num_rejected", reader_->num_rejected()},
                            {"num_documents", documents_.num_documents()},
                            {"num_text_bytes", documents_.num_text_bytes()},
                            {"rejects", reader_->reject_counts()}};
  // Absent without a filter and without notes, as in the outputs of earlier versions.
  if (reader_->num_filtered() > 0) summary["num_filtered"] = reader_->num_filtered();
  if (const auto notes = reader_->Notes(); !notes.empty()) summary["notes"] = notes;
  return stage_->AddText(kIngestSummaryName, FormatJson(summary), 1);
}

// Checks that the input files are still those for which the key was computed.
absl::Status CheckUnchanged(const v1::CorpusSpec& resolved, const std::string& key,
                            const KeepListing& keep_listing) {
  ASSIGN_OR_RETURN(const std::string now, IngestKey(resolved, keep_listing));
  if (now == key) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "input files changed while they were read; resume the job when the corpus is complete");
}

}  // namespace

absl::StatusOr<std::string> IngestKey(const v1::CorpusSpec& resolved,
                                      const KeepListing& keep_listing) {
  const v1::IngestConfig& config = resolved.ingest();
  StageKey key("ingest", kIngestFormatVersion);
  key.Add("text_field", config.text_field())
      .Add("id_field", config.id_field())
      .Add("domain_field", config.domain_field())
      .Add("max_document_bytes", static_cast<int64_t>(config.max_document_bytes()))
      .Add("split_bytes", static_cast<int64_t>(config.split_bytes()))
      .Add("strict", config.strict())
      .Add("max_expansion_ratio", static_cast<int64_t>(config.max_expansion_ratio()))
      .Add("max_expanded_bytes", static_cast<int64_t>(config.max_expanded_bytes()));
  // The outputs of earlier versions remain valid for jobs without these settings.
  if (!config.where().empty()) key.Add("where", config.where());
  if (!config.embedding_field().empty()) key.Add("embedding_field", config.embedding_field());
  ASSIGN_OR_RETURN(const CorpusFiles files, FindCorpusFiles(Paths(resolved), keep_listing));
  for (size_t i = 0; i < files.files.size(); ++i) {
    if (keep_listing && i % kFilesPerCheck == 0) RETURN_IF_ERROR(keep_listing());
    RETURN_IF_ERROR(AddFile(files.files[i], &key));
  }
  if (HasTokenFiles(files) && !resolved.tokenizer().model_path().empty()) {
    ASSIGN_OR_RETURN(const TokenizerFile model,
                     ReadClientTokenizer(resolved.tokenizer().model_path()));
    key.Add("tokenizer", model.bytes);
  }
  for (const SkippedEntry& entry : files.skipped) {
    key.Add("skipped", entry.path.string()).Add("reason", entry.reason);
  }
  return key.Hex();
}

absl::Status Ingest(const v1::CorpusSpec& resolved, const std::string& key,
                    const KeepListing& keep_listing, const ProgressCallback& progress,
                    StageWriter* stage) {
  ASSIGN_OR_RETURN(IngestRun run, IngestRun::Resume(resolved, keep_listing, progress, stage));
  RETURN_IF_ERROR(run.CopyDocuments(progress));
  RETURN_IF_ERROR(CheckUnchanged(resolved, key, keep_listing));
  return run.Commit();
}

absl::StatusOr<IngestSummary> ReadIngestSummary(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonFile(directory / kIngestSummaryName));
  IngestSummary summary;
  summary.num_records = json.value("num_records", int64_t{0});
  summary.num_rejected = json.value("num_rejected", int64_t{0});
  summary.num_filtered = json.value("num_filtered", int64_t{0});
  summary.num_documents = json.value("num_documents", int64_t{0});
  summary.num_text_bytes = json.value("num_text_bytes", int64_t{0});
  summary.rejects = json.value("rejects", std::map<std::string, int64_t>{});
  summary.notes = json.value("notes", std::vector<std::string>{});
  return summary;
}

}  // namespace braid
