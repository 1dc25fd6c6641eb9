#include "pipeline/stages/corpus_tokens.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr char kCorpusTokensPrefix[] = "tokens";

}  // namespace

absl::StatusOr<CorpusTokenWriter> CorpusTokenWriter::Resume(const std::filesystem::path& directory,
                                                            int64_t vocab_size,
                                                            const DurablePrefixes& synced) {
  if (vocab_size == 0) return CorpusTokenWriter(nullptr);
  ASSIGN_OR_RETURN(
      auto file, IndexedDatasetWriter::Resume(directory / kCorpusTokensPrefix, vocab_size, synced));
  return CorpusTokenWriter(std::move(file));
}

absl::Status CorpusTokenWriter::Add(std::span<const int32_t> tokens) {
  if (file_ == nullptr) return absl::OkStatus();
  RETURN_IF_ERROR(file_->AddSequence(tokens));
  file_->EndDocument();
  return absl::OkStatus();
}

absl::Status CorpusTokenWriter::Sync(DurablePrefixes* synced) {
  return file_ == nullptr ? absl::OkStatus() : file_->Sync(synced);
}

absl::Status CorpusTokenWriter::Commit(StageWriter* stage) {
  if (file_ == nullptr) return absl::OkStatus();
  const int64_t num_documents = file_->num_sequences();
  ASSIGN_OR_RETURN(const std::vector<FileSummary> files, file_->Commit());
  stage->Add(files, num_documents);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<IndexedDataset>> OpenCorpusTokens(const std::filesystem::path& ingest,
                                                               int64_t num_documents) {
  const std::filesystem::path prefix = ingest / kCorpusTokensPrefix;
  if (!std::filesystem::exists(IndexPath(prefix))) return std::nullopt;
  ASSIGN_OR_RETURN(IndexedDataset tokens, IndexedDataset::Open(prefix));
  if (tokens.num_sequences() == num_documents) return tokens;
  return absl::DataLossError(absl::StrCat(prefix.string(), ".idx: got ", tokens.num_sequences(),
                                          " sequences, expected ", num_documents,
                                          ", one for each document"));
}

}  // namespace braid
