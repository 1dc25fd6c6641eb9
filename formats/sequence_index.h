// The .idx of an indexed dataset: where the sequences and documents lie in the .bin. See
// docs/formats/indexed_dataset.md.
#ifndef BRAID_FORMATS_SEQUENCE_INDEX_H_
#define BRAID_FORMATS_SEQUENCE_INDEX_H_

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

inline constexpr std::string_view kIndexedDatasetMagic("MMIDIDX\0\0", 9);
inline constexpr uint64_t kIndexedDatasetVersion = 1;

// Element types of the .bin; the values are the codes stored in the .idx.
enum class TokenType : uint8_t {
  kUint8 = 1,
  kInt8 = 2,
  kInt16 = 3,
  kInt32 = 4,
  kUint16 = 8,
};

// Return PREFIX + ".bin" and PREFIX + ".idx". The prefix may contain dots.
std::filesystem::path TokensPath(const std::filesystem::path& prefix);
std::filesystem::path IndexPath(const std::filesystem::path& prefix);

// Returns the size of an element in bytes; 0 for an unsupported code.
int64_t ElementBytes(TokenType type);

// Appends the tokens in a part of a .bin, which must have whole elements.
void AppendTokens(TokenType type, std::string_view bytes, std::vector<int32_t>* tokens);

// A view of the bytes of an .idx. Thread-safe.
class SequenceIndex {
 public:
  // Checks the whole index for consistency and against the length of the .bin. `bytes` must outlive
  // the index; `prefix` is for messages. DATA_LOSS if they disagree; INVALID_ARGUMENT for float or
  // int64 elements.
  static absl::StatusOr<SequenceIndex> Parse(std::string_view bytes, int64_t tokens_bytes,
                                             const std::filesystem::path& prefix);
  SequenceIndex() = default;

  int64_t num_sequences() const { return num_sequences_; }
  int64_t num_documents() const { return num_documents_; }
  int64_t num_tokens() const { return tokens_bytes_ / ElementBytes(type_); }
  TokenType type() const { return type_; }

  // Return the length of sequence i in tokens and its offset in the .bin in bytes; the next
  // sequence follows it without a gap. Require 0 <= i < num_sequences().
  int64_t sequence_length(int64_t i) const;
  int64_t sequence_offset(int64_t i) const;
  // Returns the first sequence of document i, whose sequences are [document_begin(i),
  // document_begin(i + 1)). Requires 0 <= i <= num_documents().
  int64_t document_begin(int64_t i) const;

 private:
  absl::Status CheckSequences(const std::filesystem::path& prefix) const;
  absl::Status CheckDocuments(const std::filesystem::path& prefix) const;

  std::string_view bytes_;
  int64_t tokens_bytes_ = 0;
  TokenType type_ = TokenType::kInt32;
  int64_t num_sequences_ = 0;
  int64_t num_documents_ = 0;
};

}  // namespace braid

#endif  // BRAID_FORMATS_SEQUENCE_INDEX_H_
