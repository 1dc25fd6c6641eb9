#include "pipeline/ordering/heldout_overlap.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
#include <tuple>
#include <utility>

#include "base/status_macros.h"
#include "pipeline/ordering/deduplicate.h"
#include "pipeline/ordering/document_blocks.h"
#include "pipeline/ordering/near_duplicate_index.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

// The overlaps found so far, by training document.
using Overlaps = std::map<uint32_t, HeldoutOverlap>;

// The search for all training documents.
class Search {
 public:
  Search(const DocumentStore& documents, std::span<const uint32_t> training,
         const HeldoutOverlapOptions& options, const ProgressCallback& progress)
      : documents_(documents), training_(training), options_(options), progress_(progress) {}

  // Adds the training documents that nearly repeat one of `heldout`. An overlap that is known from
  // an earlier pass is kept.
  absl::Status FindAll(std::span<const uint32_t> heldout, int64_t pass, int64_t num_passes,
                       Overlaps* overlaps) const;

 private:
  // Looks up the training documents from `begin` on, one per element of `matches`, in parallel.
  void FindSome(const NearDuplicateIndex& index, int64_t begin,
                std::span<std::optional<NearDuplicateIndex::Match>> matches) const;

  const DocumentStore& documents_;
  const std::span<const uint32_t> training_;
  const HeldoutOverlapOptions& options_;
  const ProgressCallback& progress_;
};

void Search::FindSome(const NearDuplicateIndex& index, int64_t begin,
                      std::span<std::optional<NearDuplicateIndex::Match>> matches) const {
  ParallelFor(std::ssize(matches), DocumentGrain(std::ssize(matches)),
              [&](int64_t from, int64_t to) {
                NearDuplicateIndex::Scratch scratch(index);
                for (int64_t i = from; i < to; ++i) {
                  const uint32_t document = training_[static_cast<size_t>(begin + i)];
                  matches[static_cast<size_t>(i)] = index.Find(documents_.text(document), &scratch);
                }
              });
}

absl::Status Search::FindAll(std::span<const uint32_t> heldout, int64_t pass, int64_t num_passes,
                             Overlaps* overlaps) const {
  const NearDuplicateIndex index(documents_.Texts(heldout), options_.min_jaccard);
  const auto report = [&](int64_t begin, int64_t n) {
    return progress_((pass * n + begin) / num_passes, n);
  };
  return ForDocumentBlocks(documents_, training_, report, [&](int64_t begin, int64_t end) {
    std::vector<std::optional<NearDuplicateIndex::Match>> matches(static_cast<size_t>(end - begin));
    FindSome(index, begin, matches);
    for (size_t i = 0; i < matches.size(); ++i) {
      if (!matches[i].has_value()) continue;
      const uint32_t document = training_[static_cast<size_t>(begin) + i];
      overlaps->insert(
          {document, {document, heldout[matches[i]->text], 0, matches[i]->jaccard, 0}});
    }
  });
}

enum class Side : uint8_t { kNone, kTraining, kHeldout };

std::vector<Side> Sides(int64_t num_documents, std::span<const uint32_t> training,
                        std::span<const uint32_t> heldout) {
  std::vector<Side> sides(static_cast<size_t>(num_documents), Side::kNone);
  for (const uint32_t i : training) sides[i] = Side::kTraining;
  for (const uint32_t i : heldout) sides[i] = Side::kHeldout;
  return sides;
}

// Returns the edges between a training and a held-out document, by training document and descending
// cosine.
std::vector<HeldoutOverlap> EdgesAcross(const NeighborLists& lists,
                                        const std::vector<Side>& sides) {
  std::vector<HeldoutOverlap> edges;
  for (size_t at = 0; at < lists.ids.size(); ++at) {
    auto training = static_cast<uint32_t>(at / static_cast<size_t>(lists.k));
    uint32_t heldout = lists.ids[at];
    if (heldout == NeighborLists::kPadding) continue;
    if (sides[training] == Side::kHeldout) std::swap(training, heldout);
    if (sides[training] != Side::kTraining || sides[heldout] != Side::kHeldout) continue;
    edges.push_back({training, heldout, lists.scores[at], 0, 0});
  }
  std::sort(edges.begin(), edges.end(), [](const HeldoutOverlap& a, const HeldoutOverlap& b) {
    return std::tuple(a.document, -a.cosine, a.heldout) <
           std::tuple(b.document, -b.cosine, b.heldout);
  });
  return edges;
}

// Merges an edge into the overlaps: it gives a known overlap of the same pair its cosine, and it is
// a new overlap when its document has none and its cosine reaches max_cosine.
void AddEdge(const DocumentStore& documents, double max_cosine, const HeldoutOverlap& edge,
             Overlaps* overlaps) {
  const auto known = overlaps->find(edge.document);
  if (known != overlaps->end()) {
    HeldoutOverlap& overlap = known->second;
    if (overlap.heldout == edge.heldout) overlap.cosine = std::max(overlap.cosine, edge.cosine);
  } else if (edge.cosine >= max_cosine) {
    HeldoutOverlap overlap = edge;
    overlap.jaccard = TextJaccard(documents, edge.document, edge.heldout);
    overlaps->insert({edge.document, overlap});
  }
}

}  // namespace

std::vector<std::span<const uint32_t>> HeldoutBlocks(const DocumentStore& documents,
                                                     std::span<const uint32_t> heldout,
                                                     int64_t max_bytes) {
  std::vector<std::span<const uint32_t>> blocks;
  size_t begin = 0;
  int64_t bytes = 0;
  for (size_t i = 0; i < heldout.size(); ++i) {
    const auto size = static_cast<int64_t>(documents.text(heldout[i]).size());
    if (bytes > 0 && bytes + size > max_bytes) {
      blocks.push_back(heldout.subspan(begin, i - begin));
      begin = i;
      bytes = 0;
    }
    bytes += size;
  }
  if (!heldout.empty()) blocks.push_back(heldout.subspan(begin));
  return blocks;
}

double TextJaccard(const DocumentStore& documents, uint32_t a, uint32_t b) {
  return Jaccard(CharacterNgrams(NormalizeText(documents.text(a))),
                 CharacterNgrams(NormalizeText(documents.text(b))));
}

absl::StatusOr<std::vector<HeldoutOverlap>> FindHeldoutOverlaps(
    const DocumentStore& documents, const NeighborLists& lists, std::span<const uint32_t> training,
    std::span<const uint32_t> heldout, const HeldoutOverlapOptions& options,
    const ProgressCallback& progress) {
  const Search search(documents, training, options, progress);
  const auto blocks = HeldoutBlocks(documents, heldout, options.max_index_bytes);
  const auto num_passes = static_cast<int64_t>(blocks.size());
  Overlaps overlaps;
  for (int64_t pass = 0; pass < num_passes; ++pass) {
    RETURN_IF_ERROR(search.FindAll(blocks[static_cast<size_t>(pass)], pass, num_passes, &overlaps));
  }
  for (const HeldoutOverlap& edge :
       EdgesAcross(lists, Sides(documents.size(), training, heldout))) {
    AddEdge(documents, options.max_cosine, edge, &overlaps);
  }
  std::vector<HeldoutOverlap> found;
  for (const auto& [document, overlap] : overlaps) found.push_back(overlap);
  return found;
}

}  // namespace braid
