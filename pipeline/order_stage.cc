#include "pipeline/order_stage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/npy.h"
#include "formats/status_macros.h"
#include "pipeline/corpus_spec.h"
#include "pipeline/heldout_split.h"
#include "pipeline/kept_neighbors.h"
#include "pipeline/stage_key.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;

struct Split {
  std::vector<uint32_t> training;  // ascending
  std::vector<uint32_t> heldout;   // ascending
};

Split SplitDocuments(const DocumentStore& documents, std::span<const uint8_t> keep,
                     const v1::CorpusSpec& resolved) {
  Split split;
  const double fraction = HeldoutFraction(resolved);
  for (int64_t i = 0; i < documents.size(); ++i) {
    if (keep[static_cast<size_t>(i)] == 0) continue;
    const bool heldout = IsHeldOut(documents.id(i), resolved.seed(), fraction);
    (heldout ? split.heldout : split.training).push_back(static_cast<uint32_t>(i));
  }
  return split;
}

DocumentOrder OrderDocuments(const StoredNeighbors& neighbors, std::span<const uint32_t> training,
                             const v1::CorpusSpec& resolved) {
  const auto n = static_cast<int64_t>(training.size());
  switch (resolved.order()) {
    case v1::RANDOM:
      return RandomOrder(n, resolved.seed());
    case v1::SOURCE:
      return SourceOrder(n);
    default: {
      const KeptNeighbors graph =
          RestrictNeighbors(neighbors.lists(), neighbors.num_documents(), training);
      return SimilarityOrder(graph.view(), n, RetrievalThreads());
    }
  }
}

absl::StatusOr<std::vector<uint32_t>> ReadNumbers(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto array, NpyArray<uint32_t>::Open(path));
  return std::vector<uint32_t>(array.values().begin(), array.values().end());
}

}  // namespace

std::string OrderKey(const v1::CorpusSpec& resolved, const std::string& deduplicate_key) {
  return StageKey("order", kFormatVersion)
      .Add("deduplicate", deduplicate_key)
      .Add("order", v1::OrderMode_Name(resolved.order()))
      .Add("heldout_fraction", HeldoutFraction(resolved))
      .Add("seed", static_cast<uint64_t>(resolved.seed()))
      .Hex();
}

absl::Status Order(const DocumentStore& documents, const StoredNeighbors& neighbors,
                   std::span<const uint8_t> keep, const v1::CorpusSpec& resolved,
                   const StageAdvance& advance, StageWriter* stage) {
  const Split split = SplitDocuments(documents, keep, resolved);
  const auto num_training = static_cast<int64_t>(split.training.size());
  if (num_training == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("no document is left to train on: of ", documents.size(), " documents ",
                     split.heldout.size(),
                     " are held out and the others are duplicates; lower "
                     "pack.heldout_fraction or add documents"));
  }
  RETURN_IF_ERROR(advance(0, num_training));
  const DocumentOrder order =
      OriginalNumbers(OrderDocuments(neighbors, split.training, resolved), split.training);
  RETURN_IF_ERROR(advance(num_training, num_training));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("order.npy", order.order));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("path_starts.npy", order.path_starts));
  return stage->AddArray<uint32_t>("heldout.npy", split.heldout);
}

absl::StatusOr<StoredOrder> StoredOrder::Read(const std::filesystem::path& directory) {
  StoredOrder stored;
  ASSIGN_OR_RETURN(stored.training.order, ReadNumbers(directory / "order.npy"));
  ASSIGN_OR_RETURN(stored.training.path_starts, ReadNumbers(directory / "path_starts.npy"));
  ASSIGN_OR_RETURN(stored.heldout, ReadNumbers(directory / "heldout.npy"));
  return stored;
}

}  // namespace braid
