// The vocabulary of a WordPiece model (vocab.txt) and the division of words into pieces.
#ifndef BRAID_RETRIEVAL_WORDPIECE_VOCABULARY_H_
#define BRAID_RETRIEVAL_WORDPIECE_VOCABULARY_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace braid {

// One piece per line; the id of a piece is its line number, from 0. Pieces that begin with "##"
// continue a word. Thread-safe.
class WordPieceVocabulary {
 public:
  // Parses a vocab.txt; `path` is for messages. INVALID_ARGUMENT, with the line, for a piece that
  // is empty, repeated or not UTF-8, for a vocabulary without [UNK], [CLS] or [SEP], and for one of
  // more than 64 MiB or 2^20 pieces. Without `needs_ends`, [CLS] and [SEP] may be missing: their
  // ids are then those of [UNK].
  static absl::StatusOr<WordPieceVocabulary> Parse(std::string_view text,
                                                   const std::filesystem::path& path,
                                                   bool needs_ends = true);

  int32_t size() const { return size_; }
  int32_t unknown_id() const { return unknown_id_; }    // [UNK]
  int32_t classify_id() const { return classify_id_; }  // [CLS]
  int32_t separate_id() const { return separate_id_; }  // [SEP]
  // Returns the XXH3-128 of the parsed text: 32 hexadecimal digits.
  const std::string& digest() const { return digest_; }

  // Appends the ids of the pieces of `word`, which must be UTF-8, by greedy longest match from the
  // left (arXiv 1609.08144, 1810.04805), or one unknown_id() if no piece matches some part of the
  // word.
  void AppendPieces(std::string_view word, std::vector<int32_t>* ids) const;

 private:
  // A node of a byte trie; the children of a node are adjacent, sorted by label.
  struct Node {
    uint32_t first_child = 0;
    uint16_t num_children = 0;
    uint8_t label = 0;
    int32_t id = -1;  // the piece that ends here
  };
  struct Entry {
    std::string_view bytes;  // without "##"
    int32_t id;
  };

  WordPieceVocabulary() = default;
  // Adds the trie of `entries`, which must be sorted; returns its root.
  uint32_t AddTrie(const std::vector<Entry>& entries);
  const Node* Child(const Node& node, uint8_t label) const;

  std::string digest_;
  int32_t size_ = 0;
  int32_t unknown_id_ = 0, classify_id_ = 0, separate_id_ = 0;
  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;  // labels for the nodes, side by side
  uint32_t begin_root_ = 0, continue_root_ = 0;
};

}  // namespace braid

#endif  // BRAID_RETRIEVAL_WORDPIECE_VOCABULARY_H_
