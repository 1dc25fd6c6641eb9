#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "retrieval/shard_index.h"

namespace braid {
namespace {

constexpr char kIndexName[] = "index.faiss";

class FaissShardIndex final : public ShardIndex {
 public:
  FaissShardIndex(std::filesystem::path directory, std::unique_ptr<VectorIndex> index)
      : directory_(std::move(directory)), index_(std::move(index)) {}

  int64_t num_vectors() const override { return index_->num_vectors(); }
  // Uses the default number of probes of FAISS, where it is a setting of the index, not of a
  // search.
  int64_t num_lists() const override { return 0; }

  absl::Status SetCentroids(int64_t, std::span<const float>) override {
    return absl::FailedPreconditionError(
        "cannot set centroids of this index, only of \"IVF<lists>,Flat\"; train it instead");
  }

  absl::Status Train(std::span<const float> sample) override {
    if (was_trained_ || num_vectors() > 0) {
      return absl::FailedPreconditionError(
          "cannot train the shard again or after vectors were added");
    }
    RETURN_IF_ERROR(index_->Train(sample));
    was_trained_ = true;
    return absl::OkStatus();
  }

  absl::Status Add(std::span<const int64_t> ids, std::span<const float> vectors) override {
    return index_->Add(ids, vectors);
  }

  absl::Status Search(std::span<const float> queries, int32_t k, int64_t, SearchOutput output,
                      const StopCheck& check) const override {
    if (check) RETURN_IF_ERROR(check());
    return index_->Search(queries, k, output);
  }

  absl::StatusOr<std::vector<ManifestEntry>> Seal() override {
    ASSIGN_OR_RETURN(const FileSummary file, index_->Save(directory_ / kIndexName));
    return std::vector<ManifestEntry>{MakeManifestEntry(file, num_vectors())};
  }

 private:
  std::filesystem::path directory_;
  std::unique_ptr<VectorIndex> index_;
  bool was_trained_ = false;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ShardIndex>> CreateFaissShardIndex(
    const std::filesystem::path& directory, int32_t d, const std::string& factory) {
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> index, VectorIndex::Create(d, factory));
  return std::make_unique<FaissShardIndex>(directory, std::move(index));
}

absl::StatusOr<std::unique_ptr<ShardIndex>> LoadFaissShardIndex(
    const std::filesystem::path& directory, const Manifest& manifest) {
  const ManifestEntry* file = manifest.Find(kIndexName);
  if (file == nullptr) {
    return absl::DataLossError(
        absl::StrCat(directory.string(), ": the manifest of a shard lists no ", kIndexName));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> index, VectorIndex::Load(directory, *file));
  return std::make_unique<FaissShardIndex>(directory, std::move(index));
}

}  // namespace braid
