#include "pipeline/stages/corpus_vectors.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pipeline/store/resume_point.h"

namespace braid {
namespace {

constexpr char kVectorsName[] = "embeddings.npy";
constexpr int64_t kMaxBatchBytes = int64_t{8} << 20;
constexpr int64_t kMaxBatchDocuments = 8192;

// Appends `vector` with norm 1; returns false unless it is finite and not zero.
bool AppendNormalized(std::span<const float> vector, std::vector<float>* out) {
  double squares = 0;
  for (const float x : vector) squares += double{x} * double{x};
  if (!(squares > 0) || !std::isfinite(squares)) return false;
  const double scale = 1 / std::sqrt(squares);
  for (const float x : vector) out->push_back(static_cast<float>(double{x} * scale));
  return true;
}

}  // namespace

absl::StatusOr<CorpusVectorWriter> CorpusVectorWriter::Resume(
    const std::filesystem::path& directory, int64_t dimension, const DurablePrefixes& synced) {
  CorpusVectorWriter writer(directory);
  if (dimension == 0) return writer;
  ASSIGN_OR_RETURN(writer.file_,
                   NpyWriter<float>::Resume(directory / kVectorsName, {dimension}, synced));
  return writer;
}

absl::Status CorpusVectorWriter::Add(std::span<const float> vector) {
  if (!file_) {
    ASSIGN_OR_RETURN(file_, NpyWriter<float>::Create(directory_ / kVectorsName,
                                                     {static_cast<int64_t>(vector.size())}));
  }
  return file_->AppendRows(vector);
}

absl::Status CorpusVectorWriter::Sync(DurablePrefixes* synced) {
  return file_ ? file_->Sync(synced) : absl::OkStatus();
}

absl::Status CorpusVectorWriter::Commit(StageWriter* stage) {
  if (!file_) return absl::OkStatus();
  const int64_t num_vectors = file_->num_rows();
  ASSIGN_OR_RETURN(const FileSummary summary, file_->Commit());
  stage->Add(summary, num_vectors);
  return absl::OkStatus();
}

absl::Status CopyCorpusVectors(const DocumentStore& documents, const std::filesystem::path& ingest,
                               const ProgressCallback& progress, StageWriter* stage) {
  const std::filesystem::path source = ingest / kVectorsName;
  ASSIGN_OR_RETURN(const NpyArray<float> vectors, NpyArray<float>::Open(source));
  if (vectors.num_rows() != documents.size()) {
    return absl::DataLossError(absl::StrCat(source.string(), ": got ", vectors.num_rows(),
                                            " vectors, expected ", documents.size(),
                                            ", one per document"));
  }
  const ResumePoint& left = stage->resume_point();
  ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Resume(stage->directory() / kVectorsName,
                                                         {vectors.row_size()}, left.files));
  const int64_t batch_bytes = std::min(kMaxBatchBytes, stage->chunk_bytes());
  std::vector<float> rows;
  for (int64_t begin = left.position; begin < documents.size();) {
    RETURN_IF_ERROR(progress(DocumentPosition(documents, begin, stage->chunk_bytes())));
    const int64_t end = documents.ChunkEnd(begin, batch_bytes, kMaxBatchDocuments);
    rows.clear();
    for (int64_t i = begin; i < end; ++i) {
      if (AppendNormalized(vectors.row(i), &rows)) continue;
      return absl::DataLossError(
          absl::StrCat(source.string(), ": vector ", i, " is zero or not finite"));
    }
    RETURN_IF_ERROR(writer.AppendRows(rows));
    if (stage->CountWork(documents.TextBytes(begin, end))) {
      ResumePoint point{.position = end};
      RETURN_IF_ERROR(writer.Sync(&point.files));
      RETURN_IF_ERROR(stage->SaveResumePoint(std::move(point)));
    }
    begin = end;
  }
  ASSIGN_OR_RETURN(const FileSummary summary, writer.Commit());
  stage->Add(summary, documents.size());
  return absl::OkStatus();
}

}  // namespace braid
