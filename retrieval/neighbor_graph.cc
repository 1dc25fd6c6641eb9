#include "retrieval/neighbor_graph.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "retrieval/document_sample.h"
#include "retrieval/inner_product.h"
#include "retrieval/vector_index.h"

namespace braid {
namespace {

constexpr char kExactIndex[] = "Flat";
constexpr int64_t kMaxExactDocuments = 250'000;
constexpr int64_t kMaxUncompressedDocuments = 20'000'000;
constexpr int32_t kDefaultNeighbors = 20;
constexpr int32_t kMaxNeighbors = 10'000;
constexpr int32_t kDefaultRecallSample = 1000;
constexpr int64_t kQueriesPerBlock = 4096;

constexpr double kTargetRecall = 0.95;
constexpr double kLeastRecallGain = 0.002;
constexpr int64_t kFirstProbes = 8;
// FAISS asks for at least 39 and uses at most 256 training vectors a list.
constexpr int64_t kTrainingVectorsPerList = 64;
constexpr int64_t kTrainingVectorsWithoutLists = 65'536;
constexpr int32_t kSpareCandidates = 8;
constexpr int32_t kCompressedOversampling = 8;

// The configuration with its defaults filled in.
struct GraphSettings {
  int32_t k;
  int64_t recall_sample;
  std::string index;
  int64_t num_probes;  // 0: by recall
};

absl::Status CheckNotNegative(const char* field, int64_t got) {
  if (got >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("neighbors.", field, " is ", got, ", expected 0 (the default) or more"));
}

absl::StatusOr<GraphSettings> Resolve(const v1::NeighborConfig& config, int64_t n, int32_t d) {
  RETURN_IF_ERROR(CheckNotNegative("k", config.k()));
  RETURN_IF_ERROR(CheckNotNegative("recall_sample", config.recall_sample()));
  RETURN_IF_ERROR(CheckNotNegative("nprobe", config.nprobe()));
  if (config.k() > kMaxNeighbors) {
    return absl::InvalidArgumentError(
        absl::StrCat("neighbors.k is ", config.k(), ", expected at most ", kMaxNeighbors));
  }
  const bool automatic = config.index().empty() || config.index() == "auto";
  return GraphSettings{
      .k = config.k() > 0 ? config.k() : kDefaultNeighbors,
      .recall_sample = config.recall_sample() > 0 ? config.recall_sample() : kDefaultRecallSample,
      .index = automatic ? AutomaticIndex(n, d) : config.index(),
      .num_probes = config.nprobe()};
}

absl::Status CheckVectors(const DocumentVectors& vectors) {
  constexpr float kNormTolerance = 1e-3f;
  if (vectors.d < 1 || vectors.n < 0 || vectors.n >= kNoNeighbor ||
      static_cast<int64_t>(vectors.values.size()) != vectors.n * vectors.d) {
    return absl::InvalidArgumentError(absl::StrCat("neighbour graph: got ", vectors.values.size(),
                                                   " values, expected ", vectors.n, " documents x ",
                                                   vectors.d, " dimensions"));
  }
  for (int64_t i = 0; i < vectors.n; ++i) {
    const float squares = InnerProduct(vectors.row(i), vectors.row(i), vectors.d);
    if (squares == 0 || std::abs(squares - 1) < kNormTolerance) continue;
    return absl::InvalidArgumentError(absl::StrCat("neighbour graph: vector ", i,
                                                   " has squared norm ", squares,
                                                   ", expected 1 or 0; normalise the embeddings"));
  }
  return absl::OkStatus();
}

struct Neighbors {
  Neighbors(size_t num_documents, int32_t k) : ids(num_documents * k), scores(num_documents * k) {}
  NeighborRows rows() { return {ids, scores}; }

  std::vector<uint32_t> ids;
  std::vector<float> scores;
};

// What approximate search is measured against.
class RecallSample {
 public:
  static absl::StatusOr<RecallSample> Measure(const NeighborSearch& exact, int64_t n, int32_t k,
                                              int64_t count, uint64_t seed) {
    RecallSample sample(SampleDocuments(n, count, seed), k);
    RETURN_IF_ERROR(exact.Find(sample.documents_, sample.truth_.rows()));
    return sample;
  }

  std::span<const uint32_t> documents() const { return documents_; }

  // recall@k, where row_of(i) is the row of the i-th sampled document.
  template <class RowOf>
  double Recall(const std::vector<uint32_t>& ids, const std::vector<float>& scores,
                RowOf row_of) const {
    int64_t expected = 0, found = 0;
    for (size_t i = 0; i < documents_.size(); ++i) {
      const std::span truth_ids(truth_.ids.begin() + i * k_, k_);
      const auto num_true = std::ranges::find(truth_ids, kNoNeighbor) - truth_ids.begin();
      if (num_true == 0) continue;
      expected += num_true;
      const float least = truth_.scores[i * k_ + num_true - 1];
      for (size_t j = row_of(i) * k_; j < (row_of(i) + 1) * k_; ++j) {
        found += ids[j] != kNoNeighbor && scores[j] >= least;
      }
    }
    return expected == 0 ? 1.0 : static_cast<double>(found) / static_cast<double>(expected);
  }

 private:
  RecallSample(std::vector<uint32_t> documents, int32_t k)
      : documents_(std::move(documents)),
        k_(static_cast<size_t>(k)),
        truth_(documents_.size(), k) {}

  std::vector<uint32_t> documents_;
  size_t k_;
  Neighbors truth_;
};

std::vector<float> TrainingVectors(const DocumentVectors& vectors, int64_t count, uint64_t seed) {
  std::vector<float> rows;
  for (uint32_t document : SampleDocuments(vectors.n, count, seed)) {
    rows.insert(rows.end(), vectors.row(document), vectors.row(document) + vectors.d);
  }
  return rows;
}

absl::Status AddAll(const DocumentVectors& vectors, VectorIndex* index) {
  for (int64_t begin = 0; begin < vectors.n; begin += kQueriesPerBlock) {
    const int64_t count = std::min(kQueriesPerBlock, vectors.n - begin);
    std::vector<int64_t> ids(static_cast<size_t>(count));
    std::iota(ids.begin(), ids.end(), begin);
    RETURN_IF_ERROR(index->Add(ids, vectors.values.subspan(begin * vectors.d, count * vectors.d)));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<VectorIndex>> TrainAndFill(const DocumentVectors& vectors,
                                                          const std::string& factory,
                                                          uint64_t seed) {
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> index, VectorIndex::Create(vectors.d, factory));
  if (!index->is_trained()) {
    const std::optional<int64_t> lists = index->num_lists();
    const int64_t count = lists ? *lists * kTrainingVectorsPerList : kTrainingVectorsWithoutLists;
    RETURN_IF_ERROR(index->Train(TrainingVectors(vectors, count, seed)));
  }
  RETURN_IF_ERROR(AddAll(vectors, index.get()));
  return index;
}

// Doubles the lists searched until recall on the sample is good, or no better than
// before (compressed vectors may never reach the target).
absl::StatusOr<int64_t> ChooseProbes(const NeighborSearch& search, const RecallSample& sample,
                                     int32_t k, VectorIndex* index) {
  const int64_t num_lists = *index->num_lists();
  Neighbors found(sample.documents().size(), k);
  double previous = -1;
  for (int64_t probes = std::min(kFirstProbes, num_lists);;
       probes = std::min(2 * probes, num_lists)) {
    index->SetProbes(probes);
    RETURN_IF_ERROR(search.Find(sample.documents(), found.rows()));
    const double recall = sample.Recall(found.ids, found.scores, [](size_t i) { return i; });
    const bool stalled = recall - previous < kLeastRecallGain;
    if (recall >= kTargetRecall || stalled || probes == num_lists) return probes;
    previous = recall;
  }
}

int32_t NumCandidates(const GraphSettings& settings) {
  const bool compressed =
      absl::StrContains(settings.index, "PQ") || absl::StrContains(settings.index, "SQ");
  return compressed ? kCompressedOversampling * (settings.k + 1)
                    : settings.k + 1 + kSpareCandidates;
}

// A search with what it needs to stay alive.
struct OwnedSearch {
  std::unique_ptr<VectorIndex> index;
  std::unique_ptr<NeighborSearch> search;
  std::string description;
};

absl::StatusOr<OwnedSearch> MakeIndexed(const DocumentVectors& vectors,
                                        const GraphSettings& settings, const RecallSample& sample,
                                        uint64_t seed) {
  OwnedSearch made;
  ASSIGN_OR_RETURN(made.index, TrainAndFill(vectors, settings.index, seed));
  made.search =
      MakeIndexedNeighborSearch(vectors, settings.k, NumCandidates(settings), made.index.get());
  made.description = settings.index;
  if (!made.index->num_lists()) return made;
  int64_t probes = std::min(settings.num_probes, *made.index->num_lists());
  if (probes == 0) {
    ASSIGN_OR_RETURN(probes, ChooseProbes(*made.search, sample, settings.k, made.index.get()));
  }
  made.index->SetProbes(probes);
  absl::StrAppend(&made.description, " nprobe=", probes);
  return made;
}

absl::Status SearchAll(const NeighborSearch& search, int64_t n,
                       const std::function<void(int64_t)>& progress, NeighborGraph* graph) {
  graph->ids.resize(n * graph->k);
  graph->scores.resize(n * graph->k);
  for (int64_t begin = 0; begin < n; begin += kQueriesPerBlock) {
    const int64_t count = std::min(kQueriesPerBlock, n - begin);
    std::vector<uint32_t> documents(static_cast<size_t>(count));
    std::iota(documents.begin(), documents.end(), static_cast<uint32_t>(begin));
    const auto offset = begin * graph->k, size = count * graph->k;
    RETURN_IF_ERROR(search.Find(documents, {std::span(graph->ids).subspan(offset, size),
                                            std::span(graph->scores).subspan(offset, size)}));
    if (progress) progress(begin + count);
  }
  return absl::OkStatus();
}

}  // namespace

std::string AutomaticIndex(int64_t n, int32_t d) {
  if (n <= kMaxExactDocuments) return kExactIndex;
  const auto num_lists = static_cast<int64_t>(4 * std::sqrt(static_cast<double>(n)));
  if (n <= kMaxUncompressedDocuments) return absl::StrCat("IVF", num_lists, ",Flat");
  // A byte for eight dimensions; the sub-vectors must divide d evenly.
  int32_t code_bytes = std::max(1, d / 8);
  while (d % code_bytes != 0) --code_bytes;
  return absl::StrCat("IVF", num_lists, ",PQ", code_bytes);
}

absl::StatusOr<NeighborGraph> BuildNeighborGraph(
    std::span<const float> values, int64_t n, int32_t d, const v1::NeighborConfig& config,
    uint64_t seed, const std::function<void(int64_t done)>& progress) {
  const DocumentVectors vectors{values, n, d};
  RETURN_IF_ERROR(CheckVectors(vectors));
  ASSIGN_OR_RETURN(const GraphSettings settings, Resolve(config, n, d));
  const auto exact = MakeExactNeighborSearch(vectors, settings.k);
  ASSIGN_OR_RETURN(const RecallSample sample,
                   RecallSample::Measure(*exact, n, settings.k, settings.recall_sample, seed));
  NeighborGraph graph;
  graph.k = settings.k;
  graph.index_description = absl::StrCat(kExactIndex, " (exact)");
  if (settings.index == kExactIndex || n == 0) {
    RETURN_IF_ERROR(SearchAll(*exact, n, progress, &graph));
  } else {
    ASSIGN_OR_RETURN(const OwnedSearch indexed, MakeIndexed(vectors, settings, sample, seed));
    graph.index_description = indexed.description;
    RETURN_IF_ERROR(SearchAll(*indexed.search, n, progress, &graph));
  }
  graph.recall_at_k = sample.Recall(graph.ids, graph.scores,
                                    [&](size_t i) -> size_t { return sample.documents()[i]; });
  return graph;
}

}  // namespace braid
