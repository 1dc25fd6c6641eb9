// EmbeddingService (braid/v1/embedding.proto): an Embedder for others.
#ifndef BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
#define BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_

#include <chrono>
#include <memory>

#include "retrieval/embedder.h"

namespace grpc {
class Service;
}

namespace braid {

// Initial metadata of every stream, sent before its first batch is read: dimension,
// fingerprint and, unless it is 0, preferred_batch_texts() of the embedder.
inline constexpr char kEmbedderDimensionKey[] = "braid-embedder-dimension";
inline constexpr char kEmbedderFingerprintKey[] = "braid-embedder-fingerprint";
inline constexpr char kEmbedderBatchTextsKey[] = "braid-embedder-batch-texts";

struct EmbeddingServiceOptions {
  // Streams open at a time; further ones are RESOURCE_EXHAUSTED at once.
  int max_streams = 64;
  // Batches that are embedded at a time, each with RetrievalThreads() threads; the others
  // wait in turn.
  int max_batches = 2;
  // Between signs of life while a batch waits or is embedded.
  std::chrono::milliseconds sign_interval{5'000};
};

// For each batch received, one answer, in order. A stream holds one batch and its answer: the
// next is read when the answer is written, and gRPC's flow control keeps clients from
// sending more than its window meanwhile. So memory is bounded by max_streams, whoever does
// not read. A failing batch ends the stream with the embedder's status; INVALID_ARGUMENT for
// one whose answer would not fit into a message.
std::unique_ptr<grpc::Service> MakeEmbeddingService(std::shared_ptr<const Embedder> embedder,
                                                    const EmbeddingServiceOptions& options = {});

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
