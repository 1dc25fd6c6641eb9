#include "pipeline/stages/order_stage.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/ordering/document_partition.h"
#include "pipeline/ordering/heldout_split.h"
#include "pipeline/ordering/kept_neighbors.h"
#include "pipeline/ordering/partitioned_order.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"

namespace braid {
namespace {

constexpr int32_t kOrderFormatVersion = 3;
constexpr size_t kOrderMaxExamples = 20;

struct Split {
  std::vector<uint32_t> training;        // ascending
  std::vector<uint32_t> heldout;         // ascending
  std::vector<HeldoutOverlap> overlaps;  // ascending by document
  std::vector<RunShare> heldout_runs;    // by position in `heldout`
};

Split SplitDocuments(const DocumentStore& documents, std::span<const uint8_t> keep,
                     const v1::CorpusSpec& resolved) {
  Split split;
  const double fraction = HeldoutFraction(resolved);
  for (int64_t i = 0; i < documents.size(); ++i) {
    if (keep[static_cast<size_t>(i)] == 0) continue;
    const std::string_view source =
        SourceDocument(documents.id(i), resolved.ingest().split_bytes());
    const bool heldout = IsHeldOut(source, resolved.seed(), fraction);
    (heldout ? split.heldout : split.training).push_back(static_cast<uint32_t>(i));
  }
  return split;
}

void RemoveFromTraining(std::span<const HeldoutOverlap> overlaps, Split* split) {
  std::erase_if(split->training, [&](uint32_t document) {
    return std::ranges::binary_search(overlaps, document, {}, &HeldoutOverlap::document);
  });
}

// Removes the documents that nearly repeat a held-out one from the training documents. The held-out
// documents are never changed, so that runs with different orders and thresholds are evaluated on
// the same text.
absl::Status RemoveNearDuplicates(const DocumentStore& documents, const StoredNeighbors& neighbors,
                                  const v1::DeduplicateConfig& config,
                                  const ProgressCallback& progress, Split* split) {
  if (config.disabled()) return absl::OkStatus();
  HeldoutOverlapOptions options;
  options.min_jaccard = config.min_jaccard();
  options.max_cosine = config.max_heldout_cosine();
  ASSIGN_OR_RETURN(split->overlaps,
                   FindHeldoutOverlaps(documents, neighbors.lists(), split->training,
                                       split->heldout, options, progress));
  RemoveFromTraining(split->overlaps, split);
  return absl::OkStatus();
}

// Removes the documents that contain a held-out one, or are contained in it, likewise, and measures
// the text that both sides still share.
absl::Status RemoveContainment(const DocumentStore& documents, const v1::DeduplicateConfig& config,
                               const ProgressCallback& progress, Split* split) {
  ContainmentOptions options;
  options.min_share = config.disabled() ? 2 : config.max_heldout_containment();
  ASSIGN_OR_RETURN(Containment found,
                   FindContainment(documents, split->training, split->heldout, options, progress));
  RemoveFromTraining(found.overlaps, split);
  split->overlaps.insert(split->overlaps.end(), found.overlaps.begin(), found.overlaps.end());
  std::ranges::sort(split->overlaps, {}, &HeldoutOverlap::document);
  split->heldout_runs = std::move(found.shares);
  return absl::OkStatus();
}

absl::Status NothingToTrainOn(int64_t num_documents, const Split& split,
                              const v1::DecontaminateConfig& config) {
  const bool drops = !config.paths().empty() && !config.report_only();
  return absl::FailedPreconditionError(
      absl::StrCat("no training document remains: got ", Counted(num_documents, "document"),
                   ", of which ", split.heldout.size(), " held out and ", split.overlaps.size(),
                   " overlapping a held-out one; the others are duplicates",
                   drops ? " or share text with a file of decontaminate.paths" : "",
                   "; lower pack.heldout_fraction or add documents"));
}

// Describes the text that both sides share after the removals, with the held-out documents that
// share the most.
nlohmann::json DescribeResidue(const Split& split, const DocumentStore& documents) {
  const HeldoutResidue residue = SumRuns(split.heldout_runs);
  std::vector<size_t> most(split.heldout.size());
  std::iota(most.begin(), most.end(), size_t{0});
  const auto share = [&](size_t i) {
    const RunShare& runs = split.heldout_runs[i];
    return static_cast<double>(runs.num_shared) /
           static_cast<double>(std::max<int64_t>(runs.num_runs, 1));
  };
  std::ranges::stable_sort(most, std::ranges::greater(), share);
  nlohmann::json examples = nlohmann::json::array();
  for (const size_t i : most) {
    if (examples.size() == kOrderMaxExamples || split.heldout_runs[i].num_shared == 0) break;
    examples.push_back({{"heldout", std::string(documents.id(split.heldout[i]))},
                        {"num_runs", split.heldout_runs[i].num_runs},
                        {"num_shared", split.heldout_runs[i].num_shared}});
  }
  return {{"num_documents", residue.num_documents},
          {"num_with_shared", residue.num_with_shared},
          {"num_mostly_shared", residue.num_mostly_shared},
          {"num_runs", residue.num_runs},
          {"num_shared", residue.num_shared},
          {"examples", std::move(examples)}};
}

nlohmann::json Describe(const Split& split, const DocumentStore& documents,
                        const v1::DeduplicateConfig& config) {
  int64_t num_by_jaccard = 0, num_by_containment = 0;
  nlohmann::json domains = nlohmann::json::object(), examples = nlohmann::json::array();
  for (const HeldoutOverlap& overlap : split.overlaps) {
    num_by_containment += overlap.containment > 0 ? 1 : 0;
    num_by_jaccard += overlap.jaccard >= config.min_jaccard() ? 1 : 0;
    const auto domain = static_cast<size_t>(documents.domain(overlap.document));
    nlohmann::json& count = domains[documents.domain_names()[domain]];
    count = count.is_null() ? 1 : count.get<int64_t>() + 1;
    if (examples.size() == kOrderMaxExamples) continue;
    examples.push_back({{"document", std::string(documents.id(overlap.document))},
                        {"heldout", std::string(documents.id(overlap.heldout))},
                        {"cosine", overlap.cosine},
                        {"jaccard", overlap.jaccard},
                        {"containment", overlap.containment}});
  }
  const auto num_overlaps = static_cast<int64_t>(split.overlaps.size());
  return {{"checked", !config.disabled()},
          {"num_heldout", split.heldout.size()},
          {"num_overlaps", num_overlaps},
          {"num_by_jaccard", num_by_jaccard},
          {"num_by_cosine_alone", num_overlaps - num_by_jaccard - num_by_containment},
          {"num_by_containment", num_by_containment},
          {"domains", std::move(domains)},
          {"examples", std::move(examples)},
          {"shared_runs", DescribeResidue(split, documents)}};
}

// Sets the cosine of each overlap to that of its embeddings: most are in no neighbor list.
absl::Status SetOverlapCosines(const std::filesystem::path& embed_directory,
                               std::vector<HeldoutOverlap>* overlaps) {
  if (overlaps->empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const auto embeddings,
                   NpyArray<float>::Open(embed_directory / "embeddings.npy"));
  for (HeldoutOverlap& overlap : *overlaps) {
    overlap.cosine = CosineOfRows(embeddings, overlap.document, overlap.heldout);
  }
  return absl::OkStatus();
}

absl::Status StoreOverlaps(const Split& split, const DocumentStore& documents,
                           const v1::DeduplicateConfig& config, StageWriter* stage) {
  std::vector<uint32_t> pairs;
  std::vector<float> similarities;
  for (const HeldoutOverlap& overlap : split.overlaps) {
    pairs.insert(pairs.end(), {overlap.document, overlap.heldout});
    similarities.insert(similarities.end(),
                        {static_cast<float>(overlap.cosine), static_cast<float>(overlap.jaccard),
                         static_cast<float>(overlap.containment)});
  }
  std::vector<int64_t> runs;
  for (const RunShare& share : split.heldout_runs) {
    runs.insert(runs.end(), {share.num_runs, share.num_shared});
  }
  RETURN_IF_ERROR(stage->AddArray<int64_t>("heldout_runs.npy", runs, {2}));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("heldout_overlaps.npy", pairs, {2}));
  RETURN_IF_ERROR(stage->AddArray<float>("heldout_overlap_similarities.npy", similarities, {3}));
  return stage->AddText("heldout_overlaps.json", FormatJson(Describe(split, documents, config)),
                        static_cast<int64_t>(split.overlaps.size()));
}

absl::StatusOr<std::vector<HeldoutOverlap>> ReadOverlaps(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const auto pairs, NpyArray<uint32_t>::Open(directory / "heldout_overlaps.npy"));
  ASSIGN_OR_RETURN(const auto similarities,
                   NpyArray<float>::Open(directory / "heldout_overlap_similarities.npy"));
  if (pairs.row_size() != 2 || similarities.row_size() != 3 ||
      pairs.num_rows() != similarities.num_rows()) {
    return absl::DataLossError(absl::StrCat(directory.string(),
                                            ": expected heldout_overlaps.npy of shape [m, 2] and "
                                            "heldout_overlap_similarities.npy of shape [m, 3]; "
                                            "remove the directory and resume the job"));
  }
  std::vector<HeldoutOverlap> overlaps;
  for (int64_t i = 0; i < pairs.num_rows(); ++i) {
    overlaps.push_back({pairs.row(i)[0], pairs.row(i)[1], similarities.row(i)[0],
                        similarities.row(i)[1], similarities.row(i)[2]});
  }
  return overlaps;
}

absl::StatusOr<std::vector<RunShare>> ReadHeldoutRuns(const std::filesystem::path& directory,
                                                      size_t num_heldout) {
  ASSIGN_OR_RETURN(const auto runs, NpyArray<int64_t>::Open(directory / "heldout_runs.npy"));
  if (runs.row_size() != 2 || runs.num_rows() != static_cast<int64_t>(num_heldout)) {
    return absl::DataLossError(
        absl::StrCat(directory.string(), ": heldout_runs.npy: got ", runs.num_rows(), " rows of ",
                     runs.row_size(), ", expected ", num_heldout,
                     " of 2, one per held-out document; remove the directory and resume the job"));
  }
  std::vector<RunShare> shares;
  for (int64_t i = 0; i < runs.num_rows(); ++i) shares.push_back({runs.row(i)[0], runs.row(i)[1]});
  return shares;
}

// Returns the part of each training document, and kNoPartition for the others.
absl::StatusOr<std::vector<uint32_t>> PartitionTraining(
    const std::filesystem::path& embed_directory, std::span<const uint32_t> training,
    int64_t num_partitions, uint64_t seed, const StopCheck& check) {
  ASSIGN_OR_RETURN(const auto embeddings,
                   NpyArray<float>::Open(embed_directory / "embeddings.npy"));
  const DocumentVectors vectors{embeddings.values(), embeddings.num_rows(),
                                static_cast<int32_t>(embeddings.row_size())};
  ASSIGN_OR_RETURN(const std::vector<uint32_t> all,
                   PartitionDocuments(vectors, num_partitions, seed, check));
  std::vector<uint32_t> parts(all.size(), kNoPartition);
  for (uint32_t document : training) parts[document] = all[document];
  return parts;
}

// Returns the training documents, by their original numbers, in the order that the spec requests.
absl::StatusOr<DocumentOrder> OrderDocuments(const StoredNeighbors& neighbors,
                                             std::span<const uint32_t> training,
                                             const std::filesystem::path& embed_directory,
                                             const v1::CorpusSpec& resolved,
                                             const StopCheck& check) {
  const auto n = static_cast<int64_t>(training.size());
  if (resolved.order() == v1::RANDOM) {
    return OriginalNumbers(RandomOrder(n, resolved.seed()), training);
  }
  if (resolved.order() == v1::SOURCE) return OriginalNumbers(SourceOrder(n), training);
  const int64_t num_partitions = NumOrderPartitions(resolved.order_partitions(), n);
  if (num_partitions == 1) {
    const KeptNeighbors graph =
        RestrictNeighbors(neighbors.lists(), neighbors.num_documents(), training);
    return OriginalNumbers(SimilarityOrder(graph.view(), n, RetrievalThreads()), training);
  }
  ASSIGN_OR_RETURN(
      const std::vector<uint32_t> parts,
      PartitionTraining(embed_directory, training, num_partitions, resolved.seed(), check));
  return PartitionedOrder(neighbors.lists(), neighbors.num_documents(), parts, num_partitions,
                          RetrievalThreads());
}

absl::StatusOr<std::vector<uint32_t>> ReadNumbers(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto array, NpyArray<uint32_t>::Open(path));
  return std::vector<uint32_t>(array.values().begin(), array.values().end());
}

}  // namespace

std::string OrderKey(const v1::CorpusSpec& resolved, const std::string& deduplicate_key) {
  StageKey key("order", kOrderFormatVersion);
  // Once, ids that end in '#' and digits counted as parts in corpora without parts, too.
  if (resolved.ingest().split_bytes() == 0) key.Add("sources", "uncut");
  return key.Add("deduplicate", deduplicate_key)
      .Add("order", v1::OrderMode_Name(resolved.order()))
      .Add("partitions", resolved.order_partitions())
      .Add("heldout_fraction", HeldoutFraction(resolved))
      .Add("max_heldout_cosine", resolved.deduplicate().max_heldout_cosine())
      .Add("max_heldout_containment", resolved.deduplicate().max_heldout_containment())
      .Add("seed", static_cast<uint64_t>(resolved.seed()))
      .Hex();
}

absl::Status Order(const DocumentStore& documents, const StoredNeighbors& neighbors,
                   std::span<const uint8_t> keep, const std::filesystem::path& embed_directory,
                   const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                   StageWriter* stage) {
  const v1::DeduplicateConfig& config = resolved.deduplicate();
  Split split = SplitDocuments(documents, keep, resolved);
  RETURN_IF_ERROR(RemoveNearDuplicates(documents, neighbors, config, progress, &split));
  RETURN_IF_ERROR(RemoveContainment(documents, config, progress, &split));
  const auto num_training = static_cast<int64_t>(split.training.size());
  if (num_training == 0) {
    return NothingToTrainOn(documents.size(), split, resolved.decontaminate());
  }
  RETURN_IF_ERROR(progress(0, num_training));
  ASSIGN_OR_RETURN(const DocumentOrder order,
                   OrderDocuments(neighbors, split.training, embed_directory, resolved,
                                  [&] { return progress(0, num_training); }));
  RETURN_IF_ERROR(progress(num_training, num_training));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("order.npy", order.order));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("path_starts.npy", order.path_starts));
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("heldout.npy", split.heldout));
  RETURN_IF_ERROR(SetOverlapCosines(embed_directory, &split.overlaps));
  return StoreOverlaps(split, documents, config, stage);
}

absl::StatusOr<StoredOrder> StoredOrder::Read(const std::filesystem::path& directory) {
  StoredOrder stored;
  ASSIGN_OR_RETURN(stored.training.order, ReadNumbers(directory / "order.npy"));
  ASSIGN_OR_RETURN(stored.training.path_starts, ReadNumbers(directory / "path_starts.npy"));
  ASSIGN_OR_RETURN(stored.heldout, ReadNumbers(directory / "heldout.npy"));
  ASSIGN_OR_RETURN(stored.overlaps, ReadOverlaps(directory));
  ASSIGN_OR_RETURN(stored.heldout_runs, ReadHeldoutRuns(directory, stored.heldout.size()));
  return stored;
}

double HeldoutResidue::share() const {
  return num_runs == 0 ? 0 : static_cast<double>(num_shared) / static_cast<double>(num_runs);
}

HeldoutResidue SumRuns(std::span<const RunShare> shares) {
  HeldoutResidue residue;
  for (const RunShare& share : shares) {
    residue.num_documents += share.num_runs > 0 ? 1 : 0;
    residue.num_with_shared += share.num_shared > 0 ? 1 : 0;
    residue.num_mostly_shared += 2 * share.num_shared > share.num_runs ? 1 : 0;
    residue.num_runs += share.num_runs;
    residue.num_shared += share.num_shared;
  }
  return residue;
}

}  // namespace braid
