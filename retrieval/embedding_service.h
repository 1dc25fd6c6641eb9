// EmbeddingService (braid/v1/embedding.proto): an Embedder for others.
#ifndef BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
#define BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_

#include <memory>

#include "retrieval/embedder.h"

namespace grpc {
class Service;
}

namespace braid {

// Initial metadata of every answer: dimension and fingerprint of the embedder.
inline constexpr char kEmbedderDimensionKey[] = "braid-embedder-dimension";
inline constexpr char kEmbedderFingerprintKey[] = "braid-embedder-fingerprint";

// For each batch received, one answer, in order. A failing batch ends the stream
// with the embedder's status.
std::unique_ptr<grpc::Service> MakeEmbeddingService(std::shared_ptr<const Embedder> embedder);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDING_SERVICE_H_
