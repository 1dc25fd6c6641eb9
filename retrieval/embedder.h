// The interface for embedding documents, in this process (HashingEmbedder) or by a service
// (EmbeddingClient).
//
//   std::vector<std::string_view> texts = {"first document", "second document"};
//   std::vector<float> vectors(texts.size() * embedder.dimension());
//   RETURN_IF_ERROR(embedder.Embed(texts, vectors));
#ifndef BRAID_RETRIEVAL_EMBEDDER_H_
#define BRAID_RETRIEVAL_EMBEDDER_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"

namespace braid {

// Maps texts to vectors. Thread-safe: Embed may be called from many threads at once.
class Embedder {
 public:
  virtual ~Embedder() = default;

  // Returns the length of every vector, > 0.
  virtual int32_t dimension() const = 0;

  // Writes texts.size() vectors, row-major: `vectors` is [texts, dimension]. Requires UTF-8 texts.
  // Guarantees: each row has L2 norm 1, or is zero if the text has nothing to embed (an empty text
  // always); the row of a text does not depend on the other texts of the call.
  virtual absl::Status Embed(std::span<const std::string_view> texts,
                             std::span<float> vectors) const = 0;

  // Returns an identifier of the function from text to vector: equal fingerprints mean equal
  // vectors.
  virtual std::string fingerprint() const = 0;

  // Embeds texts as Embed does, and returns how many of them are longer than this embedder reads;
  // only their beginning is embedded.
  virtual absl::StatusOr<int64_t> EmbedAndCountCut(std::span<const std::string_view> texts,
                                                   std::span<float> vectors) const {
    RETURN_IF_ERROR(Embed(texts, vectors));
    return 0;
  }

  // Returns how many texts make a call of some seconds to a minute, for a slow embedder; 0: no
  // preference. Vectors can depend, by rounding, on which texts share a call; calls of this many
  // texts of the same sequence give the same bytes on every machine.
  virtual int64_t preferred_batch_texts() const { return 0; }

  // Returns the texts that are embedded together: a call consists of groups of this many, one after
  // the other. preferred_batch_texts() is a multiple of it.
  virtual int64_t group_texts() const { return preferred_batch_texts(); }
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_EMBEDDER_H_
