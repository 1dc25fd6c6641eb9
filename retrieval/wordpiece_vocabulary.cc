#include "retrieval/wordpiece_vocabulary.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "base/utf8.h"

namespace braid {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;
constexpr size_t kMaxPieces = size_t{1} << 20;
constexpr std::string_view kContinuation = "##";

absl::Status VocabularyError(const std::filesystem::path& path, std::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", std::string(problem)));
}

absl::StatusOr<std::vector<std::string_view>> SplitLines(std::string_view text,
                                                         const std::filesystem::path& path) {
  if (text.size() > kMaxBytes) {
    return VocabularyError(path, absl::StrCat("got ", text.size(), " bytes, expected at most ",
                                              kMaxBytes, "; check that it is a vocab.txt"));
  }
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  if (lines.size() <= kMaxPieces) return lines;
  return VocabularyError(
      path, absl::StrCat("got ", lines.size(), " pieces, expected at most ", kMaxPieces));
}

using Ids = absl::flat_hash_map<std::string, int32_t>;

absl::StatusOr<Ids> NumberPieces(const std::vector<std::string_view>& lines,
                                 const std::filesystem::path& path) {
  Ids ids;
  ids.reserve(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string where = absl::StrCat("line ", i + 1, ": ");
    if (lines[i].empty())
      return VocabularyError(path, where + "got an empty line, expected a piece");
    if (!IsValidUtf8(lines[i]))
      return VocabularyError(path, where + "got bytes that are not UTF-8, expected a piece");
    const auto [found, added] = ids.emplace(lines[i], static_cast<int32_t>(i));
    if (added) continue;
    return VocabularyError(
        path, absl::StrCat(where, "got \"", found->first, "\" again, which is on line ",
                           found->second + 1, "; expected each piece once"));
  }
  return ids;
}

std::string DigestOf(std::string_view text) {
  const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
  return absl::StrFormat("%016x%016x", hash.high64, hash.low64);
}

absl::StatusOr<int32_t> RequirePiece(const Ids& ids, const char* piece,
                                     const std::filesystem::path& path) {
  const auto found = ids.find(piece);
  if (found != ids.end()) return found->second;
  return VocabularyError(path, absl::StrCat("got no piece ", piece,
                                            ", expected the vocab.txt of a BERT model with one"));
}

}  // namespace

absl::StatusOr<WordPieceVocabulary> WordPieceVocabulary::Parse(std::string_view text,
                                                               const std::filesystem::path& path,
                                                               bool needs_ends) {
  ASSIGN_OR_RETURN(const std::vector<std::string_view> lines, SplitLines(text, path));
  ASSIGN_OR_RETURN(const Ids ids, NumberPieces(lines, path));
  WordPieceVocabulary vocabulary;
  vocabulary.digest_ = DigestOf(text);
  vocabulary.size_ = static_cast<int32_t>(lines.size());
  ASSIGN_OR_RETURN(vocabulary.unknown_id_, RequirePiece(ids, "[UNK]", path));
  const char* const begin = needs_ends || ids.contains("[CLS]") ? "[CLS]" : "[UNK]";
  const char* const end = needs_ends || ids.contains("[SEP]") ? "[SEP]" : "[UNK]";
  ASSIGN_OR_RETURN(vocabulary.classify_id_, RequirePiece(ids, begin, path));
  ASSIGN_OR_RETURN(vocabulary.separate_id_, RequirePiece(ids, end, path));
  std::vector<Entry> begins, continues;
  for (size_t i = 0; i < lines.size(); ++i) {
    std::string_view piece = lines[i];
    const bool goes_on = piece.starts_with(kContinuation);
    if (goes_on) piece.remove_prefix(kContinuation.size());
    if (!piece.empty()) (goes_on ? continues : begins).push_back({piece, static_cast<int32_t>(i)});
  }
  for (auto* entries : {&begins, &continues}) {
    std::ranges::sort(*entries, {}, &Entry::bytes);
  }
  vocabulary.begin_root_ = vocabulary.AddTrie(begins);
  vocabulary.continue_root_ = vocabulary.AddTrie(continues);
  return vocabulary;
}

uint32_t WordPieceVocabulary::AddTrie(const std::vector<Entry>& entries) {
  // Builds the trie breadth first, so that siblings are adjacent: entries [begin, end) share the
  // first `depth` bytes, which lead to `node`.
  struct Open {
    uint32_t node;
    size_t begin, end, depth;
  };
  const auto root = static_cast<uint32_t>(nodes_.size());
  nodes_.push_back({});
  labels_.push_back(0);
  std::deque<Open> open = {{root, 0, entries.size(), 0}};
  for (; !open.empty(); open.pop_front()) {
    auto [node, begin, end, depth] = open.front();
    // Pieces differ, so of the entries that share these bytes only the first can end here.
    if (begin < end && entries[begin].bytes.size() == depth) nodes_[node].id = entries[begin++].id;
    nodes_[node].first_child = static_cast<uint32_t>(nodes_.size());
    while (begin < end) {
      const char label = entries[begin].bytes[depth];
      size_t next = begin;
      while (next < end && entries[next].bytes[depth] == label) ++next;
      open.push_back({static_cast<uint32_t>(nodes_.size()), begin, next, depth + 1});
      nodes_.push_back({.label = static_cast<uint8_t>(label)});
      labels_.push_back(static_cast<uint8_t>(label));
      ++nodes_[node].num_children;
      begin = next;
    }
  }
  return root;
}

const WordPieceVocabulary::Node* WordPieceVocabulary::Child(const Node& node, uint8_t label) const {
  const uint8_t* const first = labels_.data() + node.first_child;
  const void* const found = std::memchr(first, label, node.num_children);
  if (found == nullptr) return nullptr;
  return &nodes_[node.first_child +
                 static_cast<size_t>(static_cast<const uint8_t*>(found) - first)];
}

void WordPieceVocabulary::AppendPieces(std::string_view word, std::vector<int32_t>* ids) const {
  const size_t num_before = ids->size();
  uint32_t root = begin_root_;
  while (!word.empty()) {
    int32_t longest = -1;
    size_t length = 0;
    const Node* node = &nodes_[root];
    for (size_t i = 0; i < word.size(); ++i) {
      node = Child(*node, static_cast<uint8_t>(word[i]));
      if (node == nullptr) break;
      if (node->id < 0) continue;
      longest = node->id;
      length = i + 1;
    }
    if (longest < 0) {
      ids->resize(num_before);
      ids->push_back(unknown_id_);
      return;
    }
    ids->push_back(longest);
    word.remove_prefix(length);
    root = continue_root_;
  }
}

}  // namespace braid
