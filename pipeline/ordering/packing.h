// Packing of documents into training instances.
//
// Algorithm: concatenate the documents in the given order, each followed by EOS, and cut the stream
// into instances of sequence_length + 1 tokens (L inputs and L targets that overlap in L - 1
// tokens). In the order of in-context pretraining (similarity_order.h) an instance thereby holds
// similar documents. Linear time; memory for one instance.
// Guarantees: no token is dropped or repeated; the last instance keeps its true, possibly shorter,
// length.
#ifndef BRAID_PIPELINE_ORDERING_PACKING_H_
#define BRAID_PIPELINE_ORDERING_PACKING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace braid {

// A run of tokens of one document in one instance. The EOS after a document counts as its last
// token, at document_offset = the number of the document's own tokens. Therefore the spans of an
// instance cover it without gap or overlap, and so do the spans of a document.
struct ProvenanceSpan {
  uint32_t document = 0;
  int64_t document_offset = 0;  // in tokens, from the document's first
  uint32_t instance = 0;
  int32_t instance_offset = 0;  // in tokens
  int32_t length = 0;           // in tokens, at least 1

  bool operator==(const ProvenanceSpan&) const = default;
};

// Cuts a stream of documents into instances. Not thread-safe.
//
//   Packer packer(4096, eos, [&](auto tokens, auto spans) { return Write(tokens, spans); });
//   for (uint32_t document : order) RETURN_IF_ERROR(packer.Add(document, Tokens(document)));
//   RETURN_IF_ERROR(packer.Finish());
class Packer {
 public:
  // Receives instances 0, 1, 2, ... in order. Both spans are valid during the call only.
  using Sink = std::function<absl::Status(std::span<const int32_t> tokens,
                                          std::span<const ProvenanceSpan> spans)>;

  // Requires: sequence_length >= 1.
  Packer(int32_t sequence_length, int32_t eos_id, Sink sink);

  // Appends a document of any length, even 0, and EOS.
  // Errors: those of the sink, after which the packer must not be used.
  absl::Status Add(uint32_t document, std::span<const int32_t> tokens);

  // Passes the last, partial instance, if any, to the sink. Call once, at the end.
  absl::Status Finish();

  int64_t num_instances() const { return num_instances_; }  // passed to the sink so far
  int64_t num_tokens() const { return num_tokens_; }        // added so far, EOS included

 private:
  absl::Status Append(uint32_t document, int64_t document_offset, std::span<const int32_t> tokens);
  absl::Status Emit();

  const size_t instance_tokens_;
  const int32_t eos_id_;
  const Sink sink_;
  std::vector<int32_t> tokens_;
  std::vector<ProvenanceSpan> spans_;
  int64_t num_instances_ = 0;
  int64_t num_tokens_ = 0;
};

// Returns the training order of packed instances, a seeded uniform permutation p: the instance
// stored at position i is packed instance p[i]. Similar documents share an instance, while
// consecutive instances are diverse.
std::vector<uint32_t> InstanceShuffle(int64_t num_instances, uint64_t seed);

// Cuts `order` into runs of whole documents of at least `run_tokens` tokens, EOS included, and
// returns the documents of all runs in a seeded uniform order of the runs; the last run may be
// shorter. Instances packed from it hold similar documents from several places of the order.
// `num_tokens`: the number of tokens of each document of `order` without EOS. Requires: spans of
// equal lengths.
std::vector<uint32_t> ShuffleRuns(std::span<const uint32_t> order,
                                  std::span<const int32_t> num_tokens, int64_t run_tokens,
                                  uint64_t seed);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_PACKING_H_
