// Embedders, servers, texts and calls that the tests of the embedding service and of its client
// share.
#ifndef BRAID_TESTS_RETRIEVAL_EMBEDDING_CALLS_H_
#define BRAID_TESTS_RETRIEVAL_EMBEDDING_CALLS_H_

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "retrieval/embedding_service.h"
#include "retrieval/hashing_embedder.h"
#include "tests/retrieval/retrieval_server.h"

namespace braid::embedding_calls {

inline std::shared_ptr<const Embedder> MakeHashing(int32_t dimension) {
  return *HashingEmbedder::Create({.dimension = dimension}, std::nullopt);
}

inline std::vector<std::string> Documents(int count) {
  std::vector<std::string> documents;
  for (int i = 0; i < count; ++i) {
    documents.push_back("document " + std::to_string(i) + " about topic " + std::to_string(i % 7));
  }
  return documents;
}

inline std::vector<float> Embed(const Embedder& embedder,
                                const std::vector<std::string>& documents) {
  const std::vector<std::string_view> texts(documents.begin(), documents.end());
  std::vector<float> vectors(texts.size() * embedder.dimension());
  const absl::Status status = embedder.Embed(texts, vectors);
  EXPECT_TRUE(status.ok()) << status;
  return vectors;
}

// An embedding service in this process.
class Server : public LocalServer {
 public:
  explicit Server(std::shared_ptr<const Embedder> embedder,
                  const EmbeddingServiceOptions& options = {})
      : LocalServer(MakeEmbeddingService(std::move(embedder), options)) {}
  Server(std::shared_ptr<const Embedder> embedder, int port)
      : LocalServer(MakeEmbeddingService(std::move(embedder)), port) {}
};

}  // namespace braid::embedding_calls

#endif  // BRAID_TESTS_RETRIEVAL_EMBEDDING_CALLS_H_
