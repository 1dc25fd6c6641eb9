#include "pipeline/embed_stage.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "formats/atomic_file.h"
#include "formats/npy.h"
#include "formats/status_macros.h"
#include "pipeline/resume_point.h"
#include "pipeline/stage_key.h"
#include "retrieval/document_frequencies.h"
#include "retrieval/embedder.h"
#include "retrieval/embedding_client.h"
#include "retrieval/hashing_embedder.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr char kFrequenciesName[] = "document_frequencies.npy";
constexpr char kVectorStep[] = "vectors";
// Embedded at once; cancelling waits for it.
constexpr int64_t kBatchBytes = int64_t{8} << 20;
constexpr int64_t kBatchDocuments = 8192;  // 16 MiB of vectors of 512 floats

absl::StatusOr<std::unique_ptr<EmbeddingClient>> ConnectRemote(const v1::EmbedderConfig& config,
                                                               const StopCheck& check) {
  EmbeddingClientOptions options;
  options.check = check;
  options.addresses.assign(config.addresses().begin(), config.addresses().end());
  return EmbeddingClient::Connect(options);
}

absl::StatusOr<FileSummary> SaveFrequencies(const DocumentFrequencies& frequencies,
                                            const std::filesystem::path& path) {
  RETURN_IF_ERROR(frequencies.Save(path));
  return SummarizeFile(path);
}

// The first of two passes over the corpus. Its points name a snapshot of the counts.
class FrequencyPass {
 public:
  FrequencyPass(const DocumentStore& documents, int32_t max_ngram, StageWriter* stage)
      : documents_(documents), stage_(stage), frequencies_(max_ngram) {}

  absl::StatusOr<DocumentFrequencies> Run(const StageAdvance& advance) {
    RETURN_IF_ERROR(TakeUp());
    const int64_t batch_bytes = std::min(kBatchBytes, stage_->chunk_bytes());
    for (int64_t begin = stage_->resume_point().position; begin < documents_.size();) {
      RETURN_IF_ERROR(advance(0, documents_.size()));
      const int64_t end = documents_.ChunkEnd(begin, batch_bytes, kBatchDocuments);
      frequencies_.AddAll(documents_.Texts(begin, end));
      if (stage_->CountWork(documents_.TextBytes(begin, end))) RETURN_IF_ERROR(SavePoint(end));
      begin = end;
    }
    if (!snapshot_.empty()) stage_->DropScratch(snapshot_);
    return std::move(frequencies_);
  }

 private:
  absl::Status TakeUp() {
    if (stage_->resume_point().position == 0) return absl::OkStatus();
    snapshot_ = stage_->resume_point().state.value("snapshot", "");
    ASSIGN_OR_RETURN(frequencies_, DocumentFrequencies::Load(stage_->directory() / snapshot_));
    return absl::OkStatus();
  }

  absl::Status SavePoint(int64_t position) {
    if (!snapshot_.empty()) stage_->DropScratch(snapshot_);
    snapshot_ = absl::StrCat("frequencies-", position, ".npy");
    ASSIGN_OR_RETURN(const FileSummary summary,
                     SaveFrequencies(frequencies_, stage_->directory() / snapshot_));
    stage_->AddScratch(summary);
    ResumePoint point{.position = position};
    point.state["snapshot"] = snapshot_;
    return stage_->SaveResumePoint(std::move(point));
  }

  const DocumentStore& documents_;
  StageWriter* const stage_;
  DocumentFrequencies frequencies_;
  std::string snapshot_;  // file name; "" before the first point
};

absl::StatusOr<DocumentFrequencies> ProvideFrequencies(const DocumentStore& documents,
                                                       int32_t max_ngram,
                                                       const StageAdvance& advance,
                                                       StageWriter* stage) {
  const std::filesystem::path path = stage->directory() / kFrequenciesName;
  if (stage->Has(kFrequenciesName)) return DocumentFrequencies::Load(path);
  ASSIGN_OR_RETURN(DocumentFrequencies frequencies,
                   FrequencyPass(documents, max_ngram, stage).Run(advance));
  ASSIGN_OR_RETURN(const FileSummary summary, SaveFrequencies(frequencies, path));
  stage->Add(summary, DocumentFrequencies::kNumBuckets);
  RETURN_IF_ERROR(stage->SaveResumePoint({.step = kVectorStep}));
  return frequencies;
}

absl::StatusOr<std::unique_ptr<Embedder>> FitHashing(const DocumentStore& documents,
                                                     const v1::EmbedderConfig& config,
                                                     const StageAdvance& advance,
                                                     StageWriter* stage) {
  ASSIGN_OR_RETURN(DocumentFrequencies frequencies,
                   ProvideFrequencies(documents, config.max_ngram(), advance, stage));
  const HashingOptions options = {.dimension = config.dimension() > 0
                                                   ? config.dimension()
                                                   : AutomaticDimension(documents.size()),
                                  .max_ngram = config.max_ngram()};
  return HashingEmbedder::Create(options, std::move(frequencies));
}

absl::StatusOr<std::unique_ptr<Embedder>> MakeEmbedder(const DocumentStore& documents,
                                                       const v1::EmbedderConfig& config,
                                                       const StageAdvance& advance,
                                                       StageWriter* stage) {
  if (config.kind() == "remote") {
    // Replicas may be waited for in the midst of a batch.
    return ConnectRemote(config, [&stage = *stage, advance, n = documents.size()] {
      return advance(stage.resume_point().position, n);
    });
  }
  return FitHashing(documents, config, advance, stage);
}

}  // namespace

int32_t AutomaticDimension(int64_t num_documents) {
  constexpr int64_t kMostDocuments = 500'000;
  return num_documents <= kMostDocuments ? 512 : 256;
}

absl::StatusOr<std::string> EmbedKey(const v1::CorpusSpec& resolved, const std::string& ingest_key,
                                     const StopCheck& check) {
  const v1::EmbedderConfig& config = resolved.embedder();
  StageKey key("embed", kFormatVersion);
  key.Add("ingest", ingest_key).Add("kind", config.kind());
  if (config.kind() == "remote") {
    ASSIGN_OR_RETURN(const auto client, ConnectRemote(config, check));
    key.Add("fingerprint", client->fingerprint());
  } else {
    key.Add("dimension", config.dimension()).Add("max_ngram", config.max_ngram());
  }
  return key.Hex();
}

absl::Status Embed(const DocumentStore& documents, const v1::EmbedderConfig& config,
                   const StageAdvance& advance, StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto embedder, MakeEmbedder(documents, config, advance, stage));
  // A point of the first pass says nothing about this one.
  const ResumePoint left =
      stage->resume_point().step == kVectorStep ? stage->resume_point() : ResumePoint{};
  ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Resume(stage->directory() / "embeddings.npy",
                                                         {embedder->dimension()}, left.files));
  std::vector<float> vectors;
  const int64_t batch_bytes = std::min(kBatchBytes, stage->chunk_bytes());
  for (int64_t begin = left.position; begin < documents.size();) {
    RETURN_IF_ERROR(advance(DocumentPosition(documents, begin, stage->chunk_bytes())));
    const int64_t end = documents.ChunkEnd(begin, batch_bytes, kBatchDocuments);
    vectors.assign(static_cast<size_t>((end - begin) * embedder->dimension()), 0);
    RETURN_IF_ERROR(embedder->Embed(documents.Texts(begin, end), vectors));
    RETURN_IF_ERROR(writer.AppendRows(vectors));
    if (stage->CountWork(documents.TextBytes(begin, end))) {
      ResumePoint point{.step = kVectorStep, .position = end};
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
