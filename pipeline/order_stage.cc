#include "pipeline/order_stage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/npy.h"
#include "formats/status_macros.h"
#include "pipeline/corpus_spec.h"
#include "pipeline/document_partition.h"
#include "pipeline/heldout_split.h"
#include "pipeline/kept_neighbors.h"
#include "pipeline/partitioned_order.h"
#include "pipeline/stage_key.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 2;

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

// The part of each training document, when the graph is ordered part by part.
absl::StatusOr<std::vector<uint32_t>> PartsOf(const std::filesystem::path& embed_directory,
                                              std::span<const uint32_t> training,
                                              int64_t num_partitions, uint64_t seed,
                                              const StopCheck& check) {
  ASSIGN_OR_RETURN(const auto embeddings,
                   NpyArray<float>::Open(embed_directory / "embeddings.npy"));
  const DocumentVectors vectors{embeddings.values(), embeddings.num_rows(),
                                static_cast<int32_t>(embeddings.row_size())};
  ASSIGN_OR_RETURN(const std::vector<uint32_t> all,
                   PartitionDocuments(vectors, num_partitions, seed, check));
  std::vector<uint32_t> parts;
  for (uint32_t document : training) parts.push_back(all[document]);
  return parts;
}

absl::StatusOr<DocumentOrder> OrderDocuments(const StoredNeighbors& neighbors,
                                             std::span<const uint32_t> training,
                                             const std::filesystem::path& embed_directory,
                                             const v1::CorpusSpec& resolved,
                                             const StopCheck& check) {
  const auto n = static_cast<int64_t>(training.size());
  if (resolved.order() == v1::RANDOM) return RandomOrder(n, resolved.seed());
  if (resolved.order() == v1::SOURCE) return SourceOrder(n);
  const KeptNeighbors graph =
      RestrictNeighbors(neighbors.lists(), neighbors.num_documents(), training);
  const int64_t num_partitions = NumOrderPartitions(resolved.order_partitions(), n);
  if (num_partitions == 1) return SimilarityOrder(graph.view(), n, RetrievalThreads());
  ASSIGN_OR_RETURN(const std::vector<uint32_t> parts,
                   PartsOf(embed_directory, training, num_partitions, resolved.seed(), check));
  return PartitionedOrder(graph.view(), n, parts, num_partitions, RetrievalThreads());
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
      .Add("partitions", resolved.order_partitions())
      .Add("heldout_fraction", HeldoutFraction(resolved))
      .Add("seed", static_cast<uint64_t>(resolved.seed()))
      .Hex();
}

absl::Status Order(const DocumentStore& documents, const StoredNeighbors& neighbors,
                   std::span<const uint8_t> keep, const std::filesystem::path& embed_directory,
                   const v1::CorpusSpec& resolved, const StageAdvance& advance,
                   StageWriter* stage) {
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
  ASSIGN_OR_RETURN(DocumentOrder walked,
                   OrderDocuments(neighbors, split.training, embed_directory, resolved,
                                  [&] { return advance(0, num_training); }));
  const DocumentOrder order = OriginalNumbers(std::move(walked), split.training);
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
