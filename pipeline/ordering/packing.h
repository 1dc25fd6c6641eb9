// Packing: documents, each followed by EOS, are joined in order and cut into
// training instances of sequence_length + 1 tokens. Nothing is dropped; the last
// instance keeps its true, possibly shorter, length.
#ifndef BRAID_PIPELINE_ORDERING_PACKING_H_
#define BRAID_PIPELINE_ORDERING_PACKING_H_

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "absl/status/status.h"

namespace braid {

// A run of tokens of one document in one instance. The EOS after a document is
// its last token: it has document_offset = number of the document's own tokens.
// So the spans of an instance cover it without gap or overlap, and so do those
// of a document.
struct ProvenanceSpan {
  uint32_t document = 0;
  int64_t document_offset = 0;  // in tokens, from the document's first
  uint32_t instance = 0;
  int32_t instance_offset = 0;  // in tokens
  int32_t length = 0;           // in tokens, at least 1

  bool operator==(const ProvenanceSpan&) const = default;
};

// Cuts a stream of documents into instances. Holds one instance at a time.
//
//   Packer packer(4096, eos, [&](auto tokens, auto spans) { return Write(tokens, spans); });
//   for (uint32_t document : order) RETURN_IF_ERROR(packer.Add(document, Tokens(document)));
//   RETURN_IF_ERROR(packer.Finish());
class Packer {
 public:
  // Receives instances 0, 1, 2, ...; both spans are valid during the call only.
  using Sink = std::function<absl::Status(std::span<const int32_t> tokens,
                                          std::span<const ProvenanceSpan> spans)>;

  // Requires: sequence_length >= 1.
  Packer(int32_t sequence_length, int32_t eos_id, Sink sink);

  // Appends a document (of any length, even empty) and EOS.
  // Errors: those of the sink; the packer is then not usable further.
  absl::Status Add(uint32_t document, std::span<const int32_t> tokens);

  // Hands out the last, partial instance, if any. Call once, at the end.
  absl::Status Finish();

  int64_t num_instances() const { return num_instances_; }  // handed out so far
  int64_t num_tokens() const { return num_tokens_; }        // added, EOS included

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

// Training order of packed instances: a seeded permutation p; the instance
// stored at position i is packed instance p[i]. Similar documents share an
// instance, while neighbouring instances are diverse.
std::vector<uint32_t> InstanceShuffle(int64_t num_instances, uint64_t seed);

}  // namespace braid

#endif  // BRAID_PIPELINE_ORDERING_PACKING_H_
