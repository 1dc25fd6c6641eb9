#include "pipeline/stages/neighbor_stage.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/crc32c.h"
#include "base/status_macros.h"
#include "formats/manifest.h"
#include "pipeline/store/json_file.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/neighbor_graph.h"
#include "retrieval/sharded_search.h"

namespace braid {
namespace {

constexpr int32_t kNeighborFormatVersion = 2;
constexpr char kEmbeddingsName[] = "embeddings.npy";
constexpr char kNeighborSummaryName[] = "neighbors.json";
constexpr char kIdsName[] = "neighbors.npy";
constexpr char kScoresName[] = "scores.npy";

static_assert(kNoNeighbor == NeighborLists::kPadding);

// Scratch files that a resume point refers to besides the two result files. They are not part of
// the output.
constexpr char kSearchStep[] = "search";
constexpr char kCentroidsName[] = "centroids.npy";
constexpr char kListsName[] = "lists.npy";
constexpr char kIndexName[] = "index.faiss";
constexpr char kSampleName[] = "sample.npy";
constexpr char kSampleIdsName[] = "sample_neighbors.npy";
constexpr char kSampleScoresName[] = "sample_scores.npy";

template <class T>
absl::Status AddScratchArray(const std::string& name, std::span<const T> values, int64_t row_size,
                             StageWriter* stage) {
  ASSIGN_OR_RETURN(auto writer, NpyWriter<T>::Create(stage->directory() / name, {row_size}));
  RETURN_IF_ERROR(writer.AppendRows(values));
  ASSIGN_OR_RETURN(const FileSummary summary, writer.Commit());
  stage->AddScratch(summary);
  return absl::OkStatus();
}

absl::Status SavePlan(const NeighborGraphSearch& search, int64_t dimension, StageWriter* stage) {
  const NeighborPlan& plan = search.plan();
  RETURN_IF_ERROR(AddScratchArray(kSampleName, plan.sample.documents(), 1, stage));
  RETURN_IF_ERROR(AddScratchArray(kSampleIdsName, plan.sample.ids(), search.k(), stage));
  RETURN_IF_ERROR(AddScratchArray(kSampleScoresName, plan.sample.scores(), search.k(), stage));
  if (!plan.centroids.empty()) {
    RETURN_IF_ERROR(AddScratchArray<float>(kCentroidsName, plan.centroids, dimension, stage));
  }
  if (plan.lists) {
    RETURN_IF_ERROR(AddScratchArray<uint32_t>(kListsName, plan.lists->list_of(), 1, stage));
  }
  if (plan.index) {
    ASSIGN_OR_RETURN(const FileSummary summary, plan.index->Save(stage->directory() / kIndexName));
    stage->AddScratch(summary);
  }
  ResumePoint point{.step = kSearchStep};
  point.state["num_probes"] = plan.num_probes;
  return stage->SaveResumePoint(std::move(point));
}

template <class T>
absl::StatusOr<std::vector<T>> ReadArray(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const auto array, NpyArray<T>::Open(path));
  return std::vector<T>(array.values().begin(), array.values().end());
}

absl::StatusOr<NeighborPlan> ReadPlan(int32_t k, const StageWriter& stage) {
  const std::filesystem::path& home = stage.directory();
  ASSIGN_OR_RETURN(auto documents, ReadArray<uint32_t>(home / kSampleName));
  ASSIGN_OR_RETURN(auto ids, ReadArray<uint32_t>(home / kSampleIdsName));
  ASSIGN_OR_RETURN(auto scores, ReadArray<float>(home / kSampleScoresName));
  NeighborPlan plan;
  plan.sample = RecallSample(k, std::move(documents), std::move(ids), std::move(scores));
  plan.num_probes = stage.resume_point().state.value("num_probes", int64_t{0});
  if (std::filesystem::exists(home / kCentroidsName)) {
    ASSIGN_OR_RETURN(const auto centroids, NpyArray<float>::Open(home / kCentroidsName));
    plan.centroids.assign(centroids.values().begin(), centroids.values().end());
    if (std::filesystem::exists(home / kListsName)) {
      ASSIGN_OR_RETURN(auto list_of, ReadArray<uint32_t>(home / kListsName));
      plan.lists =
          std::make_unique<InvertedLists>(plan.centroids, centroids.num_rows(), std::move(list_of));
    }
  } else if (const ManifestEntry* index = stage.FindScratch(kIndexName)) {
    ASSIGN_OR_RETURN(plan.index, VectorIndex::Load(home, *index));
  }
  return plan;
}

// Combines what the clients of several servers wait for. Thread-safe.
class ServerWaits {
 public:
  explicit ServerWaits(ProgressCallback progress) : progress_(std::move(progress)) {}

  void Update(const std::string& address, const std::string& waiting) {
    const std::lock_guard lock(mutex_);
    if (waiting.empty()) {
      waits_.erase(address);
    } else {
      waits_[address] = waiting;
    }
    std::string all;
    for (const auto& [server, text] : waits_) absl::StrAppend(&all, all.empty() ? "" : ", ", text);
    progress_.Waiting(all.empty() ? "" : "no answer from neighbor server " + all);
  }

 private:
  const ProgressCallback progress_;
  std::mutex mutex_;
  std::map<std::string, std::string> waits_;  // by address; guarded by mutex_
};

// Connects to the search servers, if any. Shards are named after the key and the checksum of the
// vectors, so that the next attempt finds its shards again and never uses those of another job.
absl::StatusOr<std::unique_ptr<ShardedCorpus>> MakeShards(
    const std::filesystem::path& embed_directory, const v1::NeighborConfig& config,
    const ProgressCallback& progress) {
  if (config.addresses().empty()) return nullptr;
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(embed_directory));
  const ManifestEntry* vectors = manifest.Find(kEmbeddingsName);
  const uint32_t crc32c = vectors == nullptr ? 0 : vectors->crc32c;
  ShardedCorpusOptions options;
  options.addresses.assign(config.addresses().begin(), config.addresses().end());
  options.client.on_waiting = [waits = std::make_shared<ServerWaits>(progress)](
                                  const std::string& address, const std::string& waiting) {
    waits->Update(address, waiting);
  };
  return ShardedCorpus::Make(
      absl::StrCat("embed-", manifest.key.substr(0, 16), "-", Crc32cToHex(crc32c)), options);
}

// Trains the index and plans the search, or loads the plan of an earlier attempt.
absl::StatusOr<NeighborGraphSearch> PrepareSearch(const NpyArray<float>& embeddings,
                                                  const v1::CorpusSpec& resolved,
                                                  const ProgressCallback& progress,
                                                  RemoteNeighbors* remote, StageWriter* stage) {
  const int64_t n = embeddings.num_rows();
  const DocumentVectors vectors{embeddings.values(), n,
                                static_cast<int32_t>(embeddings.row_size())};
  const v1::NeighborConfig& config = resolved.neighbors();
  const StopCheck check = [&] { return progress(stage->resume_point().position, n); };
  if (stage->resume_point().step == kSearchStep) {
    ASSIGN_OR_RETURN(const NeighborSettings settings,
                     NeighborSettings::Resolve(config, n, vectors.d));
    ASSIGN_OR_RETURN(NeighborPlan plan, ReadPlan(settings.k, *stage));
    return NeighborGraphSearch::Resume(vectors, config, std::move(plan), check, remote);
  }
  ASSIGN_OR_RETURN(NeighborGraphSearch search,
                   NeighborGraphSearch::Prepare(vectors, config, resolved.seed(), check, remote));
  RETURN_IF_ERROR(SavePlan(search, vectors.d, stage));
  return search;
}

// Returns the number of documents per chunk: at least one block per thread, unless the store is
// configured for small chunks.
int64_t ChunkDocuments(const NeighborGraphSearch& search, const NpyArray<float>& embeddings,
                       const StageWriter& stage) {
  constexpr int64_t kMinDocuments = 64;
  if (stage.chunk_bytes() >= StageOptions().chunk_bytes) return search.chunk_documents();
  const auto row_bytes = static_cast<int64_t>(embeddings.row_size() * sizeof(float));
  return std::max(kMinDocuments, stage.chunk_bytes() / row_bytes);
}

absl::Status SearchInChunks(const NeighborGraphSearch& search, int64_t n, int64_t chunk,
                            const ProgressCallback& progress, StageWriter* stage) {
  // A resume point from before the search was planned has no position of the search.
  const ResumePoint left =
      stage->resume_point().step == kSearchStep ? stage->resume_point() : ResumePoint{};
  const std::filesystem::path& home = stage->directory();
  ASSIGN_OR_RETURN(auto id_file,
                   NpyWriter<uint32_t>::Resume(home / kIdsName, {search.k()}, left.files));
  ASSIGN_OR_RETURN(auto score_file,
                   NpyWriter<float>::Resume(home / kScoresName, {search.k()}, left.files));
  std::vector<uint32_t> ids;
  std::vector<float> scores;
  for (int64_t begin = left.position; begin < n;) {
    const int64_t end = std::min(begin + chunk, n);
    ids.resize((end - begin) * search.k());
    scores.resize(ids.size());
    const StagePosition position = {.done = begin,
                                    .total = n,
                                    .chunk = begin / chunk + 1,
                                    .num_chunks = (n + chunk - 1) / chunk};
    RETURN_IF_ERROR(search.Find(begin, {ids, scores}, [&] { return progress(position); }));
    RETURN_IF_ERROR(id_file.AppendRows(ids));
    RETURN_IF_ERROR(score_file.AppendRows(scores));
    begin = end;
    ResumePoint point{.step = kSearchStep, .position = begin};
    point.state["num_probes"] = search.plan().num_probes;
    RETURN_IF_ERROR(id_file.Sync(&point.files));
    RETURN_IF_ERROR(score_file.Sync(&point.files));
    RETURN_IF_ERROR(stage->SaveResumePoint(std::move(point)));
  }
  ASSIGN_OR_RETURN(const FileSummary id_summary, id_file.Commit());
  stage->Add(id_summary, n);
  ASSIGN_OR_RETURN(const FileSummary score_summary, score_file.Commit());
  stage->Add(score_summary, n);
  return absl::OkStatus();
}

absl::Status CheckGraph(const StoredNeighbors& graph, const std::filesystem::path& directory) {
  const bool same_shape = graph.ids.shape().size() == 2 && graph.scores.shape().size() == 2 &&
                          graph.ids.num_rows() == graph.scores.num_rows() &&
                          graph.ids.row_size() == graph.k && graph.scores.row_size() == graph.k;
  if (same_shape) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(directory.string(),
                                          ": expected neighbors.npy and scores.npy of shape [n, ",
                                          graph.k, "]; remove the directory and resume the job"));
}

}  // namespace

std::string NeighborKey(const v1::CorpusSpec& resolved, const std::string& embed_key,
                        int64_t num_documents) {
  const v1::NeighborConfig& config = resolved.neighbors();
  StageKey key("neighbors", kNeighborFormatVersion);
  if (DependsOnSharding(config, num_documents)) key.Add("sharded", true);
  return key.Add("embed", embed_key)
      .Add("index", config.index())
      .Add("k", config.k())
      .Add("nprobe", config.nprobe())
      .Add("recall_sample", config.recall_sample())
      .Add("seed", static_cast<uint64_t>(resolved.seed()))
      .Hex();
}

absl::Status FindNeighbors(const std::filesystem::path& embed_directory,
                           const v1::CorpusSpec& resolved, const ProgressCallback& progress,
                           StageWriter* stage) {
  ASSIGN_OR_RETURN(const auto embeddings, NpyArray<float>::Open(embed_directory / kEmbeddingsName));
  const int64_t n = embeddings.num_rows();
  RETURN_IF_ERROR(progress(stage->resume_point().position, n));
  ASSIGN_OR_RETURN(const std::unique_ptr<ShardedCorpus> shards,
                   MakeShards(embed_directory, resolved.neighbors(), progress));
  ASSIGN_OR_RETURN(const NeighborGraphSearch search,
                   PrepareSearch(embeddings, resolved, progress, shards.get(), stage));
  RETURN_IF_ERROR(
      SearchInChunks(search, n, ChunkDocuments(search, embeddings, *stage), progress, stage));
  ASSIGN_OR_RETURN(const auto ids, NpyArray<uint32_t>::Open(stage->directory() / kIdsName));
  ASSIGN_OR_RETURN(const auto scores, NpyArray<float>::Open(stage->directory() / kScoresName));
  const nlohmann::json summary = {{"k", search.k()},
                                  {"num_documents", n},
                                  {"recall_at_k", search.Recall(ids.values(), scores.values())},
                                  {"index", search.description()}};
  RETURN_IF_ERROR(stage->AddText(kNeighborSummaryName, FormatJson(summary), 1));
  if (shards) shards->Drop();
  return absl::OkStatus();
}

absl::StatusOr<StoredNeighbors> StoredNeighbors::Open(const std::filesystem::path& directory) {
  StoredNeighbors graph;
  ASSIGN_OR_RETURN(graph.ids, NpyArray<uint32_t>::Open(directory / kIdsName));
  ASSIGN_OR_RETURN(graph.scores, NpyArray<float>::Open(directory / kScoresName));
  ASSIGN_OR_RETURN(const nlohmann::json summary, ReadJsonFile(directory / kNeighborSummaryName));
  graph.k = summary.value("k", 0);
  graph.recall_at_k = summary.value("recall_at_k", 0.0);
  RETURN_IF_ERROR(CheckGraph(graph, directory));
  return graph;
}

}  // namespace braid
