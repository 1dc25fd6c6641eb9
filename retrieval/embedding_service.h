// EmbeddingService (braid/v1/embedding.proto): serves an Embedder over gRPC.
#ifndef BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
#define BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_

#include <chrono>
#include <memory>

#include "retrieval/embedder.h"

namespace grpc {
class Service;
}

namespace braid {

// Keys of the initial metadata of every stream, sent before its first batch is read: dimension,
// fingerprint and, unless it is 0, preferred_batch_texts() of the embedder.
inline constexpr char kEmbedderDimensionKey[] = "braid-embedder-dimension";
inline constexpr char kEmbedderFingerprintKey[] = "braid-embedder-fingerprint";
inline constexpr char kEmbedderBatchTextsKey[] = "braid-embedder-batch-texts";

struct EmbeddingServiceOptions {
  // Maximum concurrent streams; further ones end with RESOURCE_EXHAUSTED at once.
  int max_streams = 64;
  // Maximum batches embedded at a time, each with RetrievalThreads() threads; others wait in order.
  int max_batches = 2;
  // Interval of the signs of life that are sent while a batch waits or is embedded.
  std::chrono::milliseconds sign_interval{5'000};
};

// Creates the service. It sends one answer for each batch received, in order. A stream holds one
// batch and its answer: the next batch is read after the answer was written, and gRPC's flow
// control keeps clients from sending more than its window meanwhile. So memory is bounded by
// max_streams even if clients do not read. A failing batch ends the stream with the embedder's
// status; INVALID_ARGUMENT for a batch whose answer would not fit into a message.
std::unique_ptr<grpc::Service> MakeEmbeddingService(std::shared_ptr<const Embedder> embedder,
                                                    const EmbeddingServiceOptions& options = {});

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
