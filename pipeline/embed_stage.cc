#include "pipeline/embed_stage.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "formats/atomic_file.h"
#include "formats/npy.h"
#include "formats/status_macros.h"
#include "pipeline/stage_key.h"
#include "retrieval/document_frequencies.h"
#include "retrieval/embedder.h"
#include "retrieval/embedding_client.h"
#include "retrieval/hashing_embedder.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr int64_t kChunkBytes = int64_t{8} << 20;
constexpr int64_t kChunkDocuments = 8192;  // 16 MiB of vectors of 512 floats

absl::StatusOr<std::unique_ptr<EmbeddingClient>> ConnectRemote(const v1::EmbedderConfig& config) {
  EmbeddingClientOptions options;
  options.addresses.assign(config.addresses().begin(), config.addresses().end());
  return EmbeddingClient::Connect(options);
}

// The first of two passes over the corpus.
absl::StatusOr<DocumentFrequencies> CountFrequencies(const DocumentStore& documents,
                                                     int32_t max_ngram,
                                                     const StageAdvance& advance) {
  DocumentFrequencies frequencies(max_ngram);
  for (int64_t begin = 0; begin < documents.size();) {
    RETURN_IF_ERROR(advance(0, documents.size()));
    const int64_t end = documents.ChunkEnd(begin, kChunkBytes, kChunkDocuments);
    frequencies.AddAll(documents.Texts(begin, end));
    begin = end;
  }
  return frequencies;
}

absl::StatusOr<std::unique_ptr<Embedder>> FitHashing(const DocumentStore& documents,
                                                     const v1::EmbedderConfig& config,
                                                     const StageAdvance& advance,
                                                     StageWriter* stage) {
  ASSIGN_OR_RETURN(DocumentFrequencies frequencies,
                   CountFrequencies(documents, config.max_ngram(), advance));
  const std::filesystem::path path = stage->directory() / "document_frequencies.npy";
  RETURN_IF_ERROR(frequencies.Save(path));
  ASSIGN_OR_RETURN(const FileSummary summary, SummarizeFile(path));
  stage->Add(summary, DocumentFrequencies::kNumBuckets);
  const HashingOptions options = {.dimension = config.dimension(), .max_ngram = config.max_ngram()};
  return HashingEmbedder::Create(options, std::move(frequencies));
}

absl::StatusOr<std::unique_ptr<Embedder>> MakeEmbedder(const DocumentStore& documents,
                                                       const v1::EmbedderConfig& config,
                                                       const StageAdvance& advance,
                                                       StageWriter* stage) {
  if (config.kind() == "remote") return ConnectRemote(config);
  return FitHashing(documents, config, advance, stage);
}

}  // namespace

absl::StatusOr<std::string> EmbedKey(const v1::CorpusSpec& resolved,
                                     const std::string& ingest_key) {
  const v1::EmbedderConfig& config = resolved.embedder();
  StageKey key("embed", kFormatVersion);
  key.Add("ingest", ingest_key).Add("kind", config.kind());
  if (config.kind() == "remote") {
    ASSIGN_OR_RETURN(const auto client, ConnectRemote(config));
    key.Add("fingerprint", client->fingerprint());
  } else {
    key.Add("dimension", config.dimension()).Add("max_ngram", config.max_ngram());
  }
  return key.Hex();
}

absl::Status Embed(const DocumentStore& documents, const v1::EmbedderConfig& config,
                   const StageAdvance& advance, StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto embedder, MakeEmbedder(documents, config, advance, stage));
  ASSIGN_OR_RETURN(auto writer, NpyWriter<float>::Create(stage->directory() / "embeddings.npy",
                                                         {embedder->dimension()}));
  std::vector<float> vectors;
  for (int64_t begin = 0; begin < documents.size();) {
    RETURN_IF_ERROR(advance(begin, documents.size()));
    const int64_t end = documents.ChunkEnd(begin, kChunkBytes, kChunkDocuments);
    vectors.assign(static_cast<size_t>((end - begin) * embedder->dimension()), 0);
    RETURN_IF_ERROR(embedder->Embed(documents.Texts(begin, end), vectors));
    RETURN_IF_ERROR(writer.AppendRows(vectors));
    begin = end;
  }
  ASSIGN_OR_RETURN(const FileSummary summary, writer.Commit());
  stage->Add(summary, documents.size());
  return absl::OkStatus();
}

}  // namespace braid
