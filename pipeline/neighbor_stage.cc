#include "pipeline/neighbor_stage.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"
#include "pipeline/json_file.h"
#include "pipeline/stage_key.h"
#include "retrieval/neighbor_graph.h"

namespace braid {
namespace {

constexpr int32_t kFormatVersion = 1;
constexpr char kSummaryName[] = "neighbors.json";

static_assert(kNoNeighbor == NeighborLists::kPadding);

absl::StatusOr<NeighborGraph> Search(const NpyArray<float>& embeddings,
                                     const v1::CorpusSpec& resolved, const StageAdvance& advance) {
  const int64_t n = embeddings.num_rows();
  absl::Status status = advance(0, n);
  if (!status.ok()) return status;
  // The search cannot be left half-way: a request to stop is remembered.
  const auto progress = [&](int64_t done) {
    if (status.ok()) status = advance(done, n);
  };
  ASSIGN_OR_RETURN(
      NeighborGraph graph,
      BuildNeighborGraph(embeddings.values(), n, static_cast<int32_t>(embeddings.row_size()),
                         resolved.neighbors(), resolved.seed(), progress));
  if (!status.ok()) return status;
  return graph;
}

absl::Status CheckGraph(const StoredNeighbors& graph, const std::filesystem::path& directory) {
  const bool same_shape = graph.ids.shape().size() == 2 && graph.scores.shape().size() == 2 &&
                          graph.ids.num_rows() == graph.scores.num_rows() &&
                          graph.ids.row_size() == graph.k && graph.scores.row_size() == graph.k;
  if (same_shape) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(
      directory.string(), ": neighbors.npy and scores.npy are not [n, ", graph.k, "]"));
}

}  // namespace

std::string NeighborKey(const v1::CorpusSpec& resolved, const std::string& embed_key) {
  const v1::NeighborConfig& config = resolved.neighbors();
  return StageKey("neighbors", kFormatVersion)
      .Add("embed", embed_key)
      .Add("index", config.index())
      .Add("k", config.k())
      .Add("nprobe", config.nprobe())
      .Add("recall_sample", config.recall_sample())
      .Add("seed", static_cast<uint64_t>(resolved.seed()))
      .Hex();
}

absl::Status FindNeighbors(const std::filesystem::path& embed_directory,
                           const v1::CorpusSpec& resolved, const StageAdvance& advance,
                           StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto embeddings,
                   NpyArray<float>::Open(embed_directory / "embeddings.npy"));
  ASSIGN_OR_RETURN(const NeighborGraph graph, Search(embeddings, resolved, advance));
  const int64_t n = embeddings.num_rows();
  RETURN_IF_ERROR(stage->AddArray<uint32_t>("neighbors.npy", graph.ids, {graph.k}));
  RETURN_IF_ERROR(stage->AddArray<float>("scores.npy", graph.scores, {graph.k}));
  const nlohmann::json summary = {{"k", graph.k},
                                  {"num_documents", n},
                                  {"recall_at_k", graph.recall_at_k},
                                  {"index", graph.index_description}};
  return stage->AddText(kSummaryName, FormatJson(summary), 1);
}

absl::StatusOr<StoredNeighbors> StoredNeighbors::Open(const std::filesystem::path& directory) {
  StoredNeighbors graph;
  ASSIGN_OR_RETURN(graph.ids, NpyArray<uint32_t>::Open(directory / "neighbors.npy"));
  ASSIGN_OR_RETURN(graph.scores, NpyArray<float>::Open(directory / "scores.npy"));
  ASSIGN_OR_RETURN(const nlohmann::json summary, ReadJsonFile(directory / kSummaryName));
  graph.k = summary.value("k", 0);
  graph.recall_at_k = summary.value("recall_at_k", 0.0);
  RETURN_IF_ERROR(CheckGraph(graph, directory));
  return graph;
}

}  // namespace braid
