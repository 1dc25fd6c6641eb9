#include <algorithm>
#include <mutex>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "formats/npy.h"
#include "retrieval/coarse_centroids.h"
#include "retrieval/inverted_lists.h"
#include "retrieval/list_search.h"
#include "retrieval/neighbor_search.h"
#include "retrieval/shard_index.h"

namespace braid {
namespace {

constexpr char kVectorsName[] = "vectors.npy";
constexpr char kIdsName[] = "ids.npy";
constexpr char kCentroidsName[] = "centroids.npy";
constexpr char kListsName[] = "lists.npy";

// The files of an unsealed index, to which vectors are appended.
struct Growing {
  NpyWriter<float> vectors;
  NpyWriter<int64_t> ids;
};

// The memory-mapped files of a sealed index.
struct Sealed {
  NpyArray<float> vectors;
  NpyArray<int64_t> ids;
  std::unique_ptr<InvertedLists> lists;  // null without lists
};

class ListedShardIndex final : public ShardIndex {
 public:
  ListedShardIndex(std::filesystem::path directory, int32_t d, int64_t num_lists)
      : directory_(std::move(directory)), d_(d), num_lists_(num_lists) {}

  absl::Status Create() {
    ASSIGN_OR_RETURN(auto vectors, NpyWriter<float>::Create(directory_ / kVectorsName, {d_}));
    ASSIGN_OR_RETURN(auto ids, NpyWriter<int64_t>::Create(directory_ / kIdsName, {}));
    growing_.emplace(Growing{std::move(vectors), std::move(ids)});
    return absl::OkStatus();
  }

  absl::Status Load();

  int64_t num_vectors() const override {
    return sealed_ ? sealed_->ids.num_rows() : growing_ ? growing_->ids.num_rows() : 0;
  }
  int64_t num_lists() const override { return num_lists_; }
  int64_t num_centroids() const override {
    return sealed_ ? num_lists_ : static_cast<int64_t>(centroids_.size()) / d_;
  }

  absl::Status SetCentroids(int64_t first, std::span<const float> values) override;
  absl::Status Train(std::span<const float> sample) override;
  absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) override;
  absl::Status Search(std::span<const float> queries, int32_t k, int64_t num_probes,
                      SearchOutput output, const StopCheck& check) const override;
  absl::StatusOr<std::vector<ManifestEntry>> Seal() override;

 private:
  DocumentVectors documents() const {
    return {sealed_->vectors.values(), sealed_->vectors.num_rows(), d_};
  }
  absl::Status CheckGrowing() const;
  absl::Status CheckTrained() const;
  absl::Status WriteLists(std::vector<ManifestEntry>* files);
  std::shared_ptr<const VectorSearch> SearchFor(int32_t k, bool through_lists) const;

  const std::filesystem::path directory_;
  const int32_t d_;
  const int64_t num_lists_;  // 0: exact search
  std::vector<float> centroids_;
  std::optional<Growing> growing_;
  std::optional<Sealed> sealed_;
  // The list search for the most recent k; creating one rounds all vectors to bytes.
  mutable std::mutex mutex_;
  mutable int32_t prepared_k_ = 0;
  mutable std::shared_ptr<const VectorSearch> prepared_;
};

absl::Status ListedShardIndex::Load() {
  ASSIGN_OR_RETURN(auto vectors, NpyArray<float>::Open(directory_ / kVectorsName));
  ASSIGN_OR_RETURN(auto ids, NpyArray<int64_t>::Open(directory_ / kIdsName));
  if (vectors.row_size() != d_ || vectors.num_rows() != ids.num_rows()) {
    return absl::DataLossError(absl::StrCat(directory_.string(), ": got ", vectors.num_rows(),
                                            " x ", vectors.row_size(), " vectors for ",
                                            ids.num_rows(), " ids, expected dimension ", d_));
  }
  std::unique_ptr<InvertedLists> lists;
  if (num_lists_ > 0) {
    ASSIGN_OR_RETURN(const auto centroids, NpyArray<float>::Open(directory_ / kCentroidsName));
    ASSIGN_OR_RETURN(const auto list_of, NpyArray<uint32_t>::Open(directory_ / kListsName));
    const bool fits =
        std::ranges::all_of(list_of.values(), [&](uint32_t list) { return list < num_lists_; });
    if (centroids.num_rows() != num_lists_ || centroids.row_size() != d_ ||
        list_of.num_rows() != ids.num_rows() || !fits) {
      return absl::DataLossError(absl::StrCat(directory_.string(), ": centroids.npy and lists.npy ",
                                              "do not divide ", ids.num_rows(), " vectors into ",
                                              num_lists_, " lists"));
    }
    lists = std::make_unique<InvertedLists>(
        std::vector<float>(centroids.values().begin(), centroids.values().end()), num_lists_,
        std::vector<uint32_t>(list_of.values().begin(), list_of.values().end()));
  }
  sealed_.emplace(Sealed{std::move(vectors), std::move(ids), std::move(lists)});
  return absl::OkStatus();
}

absl::Status ListedShardIndex::SetCentroids(int64_t first, std::span<const float> values) {
  const auto count = static_cast<int64_t>(values.size()) / d_;
  if (num_vectors() > 0) {
    return absl::FailedPreconditionError("cannot set centroids after vectors were added");
  }
  if (first < 0 || first > num_centroids() || count > num_lists_ - first) {
    return absl::InvalidArgumentError(absl::StrCat("got centroids ", first, " to ", first + count,
                                                   ", expected a start from 0 to ", num_centroids(),
                                                   " and an end of at most ", num_lists_));
  }
  centroids_.resize(std::max(centroids_.size(), static_cast<size_t>((first + count) * d_)));
  std::ranges::copy(values, centroids_.begin() + first * d_);
  return absl::OkStatus();
}

absl::Status ListedShardIndex::Train(std::span<const float> sample) {
  if (num_lists_ == 0 || num_centroids() > 0 || num_vectors() > 0) {
    return absl::FailedPreconditionError(
        "cannot train the shard again or after vectors were added");
  }
  const DocumentVectors vectors{sample, static_cast<int64_t>(sample.size()) / d_, d_};
  ASSIGN_OR_RETURN(centroids_, TrainCentroids(vectors, num_lists_, /*seed=*/0, nullptr));
  return absl::OkStatus();
}

// Returns an error if sealing has failed: the index then has neither files to append to nor files
// to search.
absl::Status ListedShardIndex::CheckGrowing() const {
  if (growing_) return absl::OkStatus();
  return absl::DataLossError(
      "an earlier attempt to seal the shard failed; drop it and fill it again");
}

absl::Status ListedShardIndex::CheckTrained() const {
  if (num_centroids() == num_lists_) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("got ", num_centroids(),
                                                    " centroids, expected ", num_lists_,
                                                    "; set centroids or train first"));
}

absl::Status ListedShardIndex::Add(std::span<const int64_t> ids, std::span<const float> vectors) {
  RETURN_IF_ERROR(CheckGrowing());
  RETURN_IF_ERROR(CheckTrained());
  RETURN_IF_ERROR(growing_->vectors.AppendRows(vectors));
  return growing_->ids.AppendRows(ids);
}

absl::StatusOr<std::vector<ManifestEntry>> ListedShardIndex::Seal() {
  RETURN_IF_ERROR(CheckGrowing());
  RETURN_IF_ERROR(CheckTrained());
  const int64_t n = num_vectors();
  std::vector<ManifestEntry> files;
  ASSIGN_OR_RETURN(const FileSummary vector_file, growing_->vectors.Commit());
  files.push_back(MakeManifestEntry(vector_file, n));
  ASSIGN_OR_RETURN(const FileSummary id_file, growing_->ids.Commit());
  files.push_back(MakeManifestEntry(id_file, n));
  growing_.reset();
  if (num_lists_ > 0) RETURN_IF_ERROR(WriteLists(&files));
  RETURN_IF_ERROR(Load());
  centroids_ = {};
  return files;
}

absl::Status ListedShardIndex::WriteLists(std::vector<ManifestEntry>* files) {
  ASSIGN_OR_RETURN(const auto vectors, NpyArray<float>::Open(directory_ / kVectorsName));
  const DocumentVectors filled{vectors.values(), vectors.num_rows(), d_};
  ASSIGN_OR_RETURN(const InvertedLists lists, InvertedLists::Assign(filled, centroids_, nullptr));
  FileSummary file;
  const int64_t centroid_shape[] = {num_lists_, d_};
  RETURN_IF_ERROR(WriteNpy<float>(directory_ / kCentroidsName, centroid_shape, centroids_, &file));
  files->push_back(MakeManifestEntry(file, num_lists_));
  const int64_t list_shape[] = {filled.n};
  RETURN_IF_ERROR(WriteNpy<uint32_t>(directory_ / kListsName, list_shape, lists.list_of(), &file));
  files->push_back(MakeManifestEntry(file, filled.n));
  return absl::OkStatus();
}

std::shared_ptr<const VectorSearch> ListedShardIndex::SearchFor(int32_t k,
                                                                bool through_lists) const {
  if (!through_lists) return MakeExactNeighborSearch(documents(), k);
  const std::lock_guard lock(mutex_);
  if (prepared_k_ != k) {
    prepared_.reset();
    prepared_k_ = 0;  // the next line may throw std::bad_alloc
    prepared_ = MakeListNeighborSearch(documents(), k, sealed_->lists.get());
    prepared_k_ = k;
  }
  return prepared_;
}

absl::Status ListedShardIndex::Search(std::span<const float> queries, int32_t k, int64_t num_probes,
                                      SearchOutput output, const StopCheck& check) const {
  if (!sealed_) {
    return absl::FailedPreconditionError("the shard is not sealed yet; seal it, then search");
  }
  std::ranges::fill(output.ids, -1);
  std::ranges::fill(output.scores, 0.0f);
  if (num_vectors() == 0) return absl::OkStatus();
  const auto num_queries = static_cast<int64_t>(queries.size()) / d_;
  std::vector<uint32_t> rows(static_cast<size_t>(num_queries));
  std::iota(rows.begin(), rows.end(), 0u);
  std::vector<uint32_t> found(output.ids.size());
  RETURN_IF_ERROR(SearchFor(k, num_probes > 0)
                      ->FindVectors({{queries, num_queries, d_}, rows, /*are_documents=*/false},
                                    num_probes, {found, output.scores}, check));
  const std::span<const int64_t> ids = sealed_->ids.values();
  std::ranges::transform(found, output.ids.begin(),
                         [&](uint32_t row) { return row == kNoNeighbor ? int64_t{-1} : ids[row]; });
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardIndex>> CreateListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists) {
  auto index = std::make_unique<ListedShardIndex>(directory, d, num_lists);
  RETURN_IF_ERROR(index->Create());
  return index;
}

absl::StatusOr<std::unique_ptr<ShardIndex>> LoadListedShardIndex(
    const std::filesystem::path& directory, int32_t d, int64_t num_lists) {
  auto index = std::make_unique<ListedShardIndex>(directory, d, num_lists);
  RETURN_IF_ERROR(index->Load());
  return index;
}

}  // namespace braid
