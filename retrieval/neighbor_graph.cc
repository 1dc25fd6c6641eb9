#include "retrieval/neighbor_graph.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/document_sample.h"
#include "retrieval/list_search.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

static_assert(NeighborGraphSearch::kBlock == kListSearchBlock);

constexpr double kTargetRecall = 0.91;
constexpr double kLeastRecallGain = 0.002;
constexpr int64_t kFirstProbes = 8;
// FAISS requires at least 39 and uses at most 256 training vectors per list.
constexpr int64_t kTrainingVectorsPerList = 64;
constexpr int64_t kTrainingVectorsWithoutLists = 65'536;
constexpr int64_t kVectorsPerAdd = 4096;
constexpr int64_t kVectorsPerCheck = 65'536;
constexpr int32_t kSpareIndexCandidates = 8;
constexpr int32_t kCompressedOversampling = 8;

absl::Status Ask(const StopCheck& check) { return check ? check() : absl::OkStatus(); }

absl::Status CheckVectors(const DocumentVectors& vectors, const StopCheck& check) {
  if (vectors.d < 1 || vectors.n < 0 || vectors.n >= kNoNeighbor ||
      static_cast<int64_t>(vectors.values.size()) != vectors.n * vectors.d) {
    return absl::InvalidArgumentError(absl::StrCat("neighbor graph: got ", vectors.values.size(),
                                                   " values, expected ", vectors.n, " documents x ",
                                                   vectors.d, " dimensions"));
  }
  for (int64_t begin = 0; begin < vectors.n; begin += kVectorsPerCheck) {
    RETURN_IF_ERROR(Ask(check));
    const int64_t count = std::min(kVectorsPerCheck, vectors.n - begin);
    const absl::Status unit = CheckUnitVectors(
        {vectors.row(begin), static_cast<size_t>(count * vectors.d)}, vectors.d, begin);
    if (!unit.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("neighbor graph: ", unit.message()));
    }
  }
  return absl::OkStatus();
}

absl::Status AddAll(const DocumentVectors& vectors, const StopCheck& check, VectorIndex* index) {
  for (int64_t begin = 0; begin < vectors.n; begin += kVectorsPerAdd) {
    RETURN_IF_ERROR(Ask(check));
    const int64_t count = std::min(kVectorsPerAdd, vectors.n - begin);
    std::vector<int64_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), begin);
    RETURN_IF_ERROR(index->Add(ids, vectors.values.subspan(begin * vectors.d, count * vectors.d)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<VectorIndex>> TrainAndFill(const DocumentVectors& vectors,
                                                          const std::string& factory, uint64_t seed,
                                                          const StopCheck& check) {
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> index, VectorIndex::Create(vectors.d, factory));
  if (!index->is_trained()) {
    const std::optional<int64_t> lists = index->num_lists();
    const int64_t count = lists ? *lists * kTrainingVectorsPerList : kTrainingVectorsWithoutLists;
    std::vector<float> sample;
    GatherRows(vectors, SampleDocuments(vectors.n, count, seed), &sample);
    RETURN_IF_ERROR(index->Train(sample));
  }
  RETURN_IF_ERROR(AddAll(vectors, check, index.get()));
  return index;
}

absl::Status CheckRemoteIndex(const std::string& index) {
  if (index == kExactIndex || PlainListsOf(index)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "neighbors.index: got \"", index,
      "\", expected \"auto\", \"Flat\" or \"IVF<lists>,Flat\" with neighbors.addresses"));
}

// Prepares what the search needs besides `plan`: the documents in their lists, in this process or
// remotely.
absl::Status PlaceDocuments(const DocumentVectors& vectors, const StopCheck& check,
                            RemoteNeighbors* remote, NeighborPlan* plan) {
  if (remote != nullptr) return remote->Load(vectors, plan->centroids, check);
  if (plan->centroids.empty() || plan->lists) return absl::OkStatus();
  ASSIGN_OR_RETURN(InvertedLists lists, InvertedLists::Assign(vectors, plan->centroids, check));
  plan->lists = std::make_unique<InvertedLists>(std::move(lists));
  return absl::OkStatus();
}

int32_t NumCandidates(const NeighborSettings& settings) {
  const bool compressed =
      absl::StrContains(settings.index, "PQ") || absl::StrContains(settings.index, "SQ");
  return compressed ? kCompressedOversampling * (settings.k + 1)
                    : settings.k + 1 + kSpareIndexCandidates;
}

std::unique_ptr<NeighborSearch> MakeSearch(const DocumentVectors& vectors,
                                           const NeighborSettings& settings,
                                           const NeighborPlan& plan, RemoteNeighbors* remote) {
  if (remote != nullptr) {
    return plan.centroids.empty() ? remote->MakeExactSearch(settings.k)
                                  : remote->MakeListSearch(settings.k);
  }
  if (plan.lists) return MakeListNeighborSearch(vectors, settings.k, plan.lists.get());
  if (plan.index == nullptr) return MakeExactNeighborSearch(vectors, settings.k);
  return MakeIndexedNeighborSearch(vectors, settings.k, NumCandidates(settings), plan.index.get());
}

// Chooses the number of lists to search so that recall on the sample is good.
class ProbeChoice {
 public:
  ProbeChoice(const RecallSample& sample, int32_t k, const StopCheck& check, NeighborSearch* search)
      : sample_(sample),
        check_(check),
        search_(search),
        ids_(sample.documents().size() * static_cast<size_t>(k)),
        scores_(ids_.size()) {}

  // Doubles the number of lists until recall is good or stops growing (compressed vectors may never
  // reach the target); then reduces it as far as recall stays good.
  absl::StatusOr<int64_t> Choose() {
    const int64_t num_lists = *search_->num_lists();
    double previous = -1;
    for (int64_t probes = std::min(kFirstProbes, num_lists);;
         probes = std::min(2 * probes, num_lists)) {
      ASSIGN_OR_RETURN(const double recall, RecallWith(probes));
      if (recall >= kTargetRecall) return probes <= kFirstProbes ? probes : GoBack(probes);
      if (recall - previous < kLeastRecallGain || probes == num_lists) return probes;
      previous = recall;
    }
  }

 private:
  absl::StatusOr<double> RecallWith(int64_t probes) {
    search_->SetProbes(probes);
    RETURN_IF_ERROR(search_->Find(sample_.documents(), {ids_, scores_}, check_));
    return sample_.Recall(ids_, scores_, [](size_t i) { return i; });
  }

  // Bisects: `good` lists suffice, half of it do not. Stops within a sixteenth of what is needed.
  absl::StatusOr<int64_t> GoBack(int64_t good) {
    int64_t bad = good / 2;
    while (good - bad > std::max<int64_t>(1, good / 16)) {
      const int64_t middle = bad + (good - bad) / 2;
      ASSIGN_OR_RETURN(const double recall, RecallWith(middle));
      (recall >= kTargetRecall ? good : bad) = middle;
    }
    return good;
  }

  const RecallSample& sample_;
  const StopCheck& check_;
  NeighborSearch* search_;
  std::vector<uint32_t> ids_;
  std::vector<float> scores_;
};

absl::StatusOr<int64_t> ProbesOf(const NeighborSettings& settings, const RecallSample& sample,
                                 const StopCheck& check, NeighborSearch* search) {
  if (!search->num_lists()) return 0;
  if (settings.num_probes > 0) return std::min(settings.num_probes, *search->num_lists());
  return ProbeChoice(sample, settings.k, check, search).Choose();
}

}  // namespace

NeighborGraphSearch::NeighborGraphSearch(const DocumentVectors& vectors, NeighborSettings settings,
                                         NeighborPlan plan, RemoteNeighbors* remote)
    : settings_(std::move(settings)),
      plan_(std::move(plan)),
      is_remote_(remote != nullptr),
      search_(MakeSearch(vectors, settings_, plan_, remote)) {
  if (plan_.num_probes > 0) search_->SetProbes(plan_.num_probes);
}

absl::StatusOr<NeighborGraphSearch> NeighborGraphSearch::Prepare(const DocumentVectors& vectors,
                                                                 const v1::NeighborConfig& config,
                                                                 uint64_t seed,
                                                                 const StopCheck& check,
                                                                 RemoteNeighbors* remote) {
  RETURN_IF_ERROR(CheckVectors(vectors, check));
  ASSIGN_OR_RETURN(NeighborSettings settings,
                   NeighborSettings::Resolve(config, vectors.n, vectors.d));
  if (remote != nullptr) RETURN_IF_ERROR(CheckRemoteIndex(settings.index));
  NeighborPlan plan;
  if (vectors.n > 0 && settings.index != kExactIndex) {
    if (const std::optional<int64_t> num_lists = PlainListsOf(settings.index)) {
      ASSIGN_OR_RETURN(plan.centroids, TrainCentroids(vectors, *num_lists, seed, check));
    } else {
      ASSIGN_OR_RETURN(plan.index, TrainAndFill(vectors, settings.index, seed, check));
    }
  }
  RETURN_IF_ERROR(PlaceDocuments(vectors, check, remote, &plan));
  const std::unique_ptr<NeighborSearch> exact = remote != nullptr
                                                    ? remote->MakeExactSearch(settings.k)
                                                    : MakeExactNeighborSearch(vectors, settings.k);
  ASSIGN_OR_RETURN(plan.sample, RecallSample::Measure(*exact, vectors.n, settings.k,
                                                      settings.recall_sample, seed, check));
  NeighborGraphSearch made(vectors, std::move(settings), std::move(plan), remote);
  ASSIGN_OR_RETURN(made.plan_.num_probes,
                   ProbesOf(made.settings_, made.plan_.sample, check, made.search_.get()));
  if (made.plan_.num_probes > 0) made.search_->SetProbes(made.plan_.num_probes);
  return made;
}

absl::StatusOr<NeighborGraphSearch> NeighborGraphSearch::Resume(const DocumentVectors& vectors,
                                                                const v1::NeighborConfig& config,
                                                                NeighborPlan plan,
                                                                const StopCheck& check,
                                                                RemoteNeighbors* remote) {
  ASSIGN_OR_RETURN(NeighborSettings settings,
                   NeighborSettings::Resolve(config, vectors.n, vectors.d));
  RETURN_IF_ERROR(PlaceDocuments(vectors, check, remote, &plan));
  return NeighborGraphSearch(vectors, std::move(settings), std::move(plan), remote);
}

std::string NeighborGraphSearch::description() const {
  if (plan_.centroids.empty() && plan_.index == nullptr)
    return absl::StrCat(kExactIndex, " (exact)");
  if (plan_.num_probes == 0) return settings_.index;
  return absl::StrCat(settings_.index, " nprobe=", plan_.num_probes);
}

int64_t NeighborGraphSearch::chunk_documents() const {
  constexpr int64_t kLeastBlocks = 4;
  if (is_remote_) return kBlock * kLeastBlocks;  // enough calls for every server
  if (plan_.lists == nullptr) return kBlock;     // FAISS divides a block among the threads
  return kBlock * std::max<int64_t>(kLeastBlocks, 2 * RetrievalThreads());
}

absl::Status NeighborGraphSearch::Find(int64_t begin, NeighborRows rows,
                                       const StopCheck& check) const {
  std::vector<uint32_t> documents(rows.ids.size() / static_cast<size_t>(settings_.k));
  std::iota(documents.begin(), documents.end(), static_cast<uint32_t>(begin));
  return search_->Find(documents, rows, check);
}

double NeighborGraphSearch::Recall(std::span<const uint32_t> ids,
                                   std::span<const float> scores) const {
  return plan_.sample.Recall(ids, scores,
                             [&](size_t i) -> size_t { return plan_.sample.documents()[i]; });
}

}  // namespace braid
