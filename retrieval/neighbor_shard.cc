#include "retrieval/neighbor_shard.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "formats/status_macros.h"

namespace braid {
namespace {

constexpr char kIndexFile[] = "index.faiss";
constexpr char kManifestKind[] = "neighbor-shard";
constexpr int32_t kMaxNeighbors = 10'000;
constexpr size_t kMaxResults = size_t{1} << 26;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

}  // namespace

absl::Status CheckShardName(std::string_view name) {
  constexpr size_t kMaxLength = 100;
  const bool good =
      !name.empty() && name.size() <= kMaxLength && std::ranges::all_of(name, IsNameCharacter);
  if (good) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shard name \"", View(name.substr(0, kMaxLength)),
                                                 "\": expected 1 to ", kMaxLength,
                                                 " letters, digits, '-' and '_'"));
}

absl::StatusOr<std::unique_ptr<NeighborShard>> NeighborShard::Create(int32_t dimension,
                                                                     const std::string& index) {
  const std::string description = index.empty() ? "Flat" : index;
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> made, VectorIndex::Create(dimension, description));
  return std::unique_ptr<NeighborShard>(new NeighborShard(std::move(made), description));
}

absl::StatusOr<std::unique_ptr<NeighborShard>> NeighborShard::Load(
    const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(directory));
  const ManifestEntry* entry = manifest.Find(kIndexFile);
  if (manifest.kind != kManifestKind || entry == nullptr) {
    return absl::DataLossError(
        absl::StrCat(directory.string(), ": not a sealed shard but a \"", manifest.kind, "\""));
  }
  RETURN_IF_ERROR(VerifyFile(directory, *entry));
  ASSIGN_OR_RETURN(std::unique_ptr<VectorIndex> index, VectorIndex::Load(directory / kIndexFile));
  std::unique_ptr<NeighborShard> shard(new NeighborShard(std::move(index), manifest.key));
  shard->sealed_ = *entry;
  return shard;
}

absl::Status NeighborShard::CheckVectors(std::span<const float> vectors) const {
  const auto dimension = static_cast<size_t>(index_->dimension());
  if (vectors.empty() || vectors.size() % dimension != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("got ", vectors.size(),
                     " values, expected a positive multiple of the shard's "
                     "dimension, ",
                     dimension));
  }
  const auto bad = std::ranges::find_if(vectors, [](float v) { return !std::isfinite(v); });
  if (bad == vectors.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("vector ", (bad - vectors.begin()) / dimension,
                                                 " holds ", *bad, ", expected finite values"));
}

absl::Status NeighborShard::CheckNotSealed(std::string_view change) const {
  if (!sealed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", View(change), " a sealed shard; create another one"));
}

absl::Status NeighborShard::Train(std::span<const float> vectors) {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckNotSealed("train"));
  RETURN_IF_ERROR(CheckVectors(vectors));
  if (was_trained_ || index_->num_vectors() > 0) {
    return absl::FailedPreconditionError("a shard is trained once, before vectors are added");
  }
  RETURN_IF_ERROR(index_->Train(vectors));
  was_trained_ = true;
  return absl::OkStatus();
}

absl::StatusOr<int64_t> NeighborShard::Add(std::span<const int64_t> ids,
                                           std::span<const float> vectors) {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckNotSealed("add to"));
  RETURN_IF_ERROR(CheckVectors(vectors));
  const size_t num_vectors = vectors.size() / static_cast<size_t>(index_->dimension());
  if (num_vectors != ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat("got ", num_vectors, " vectors of dimension ",
                                                   index_->dimension(), " for ", ids.size(),
                                                   " ids, expected one id a vector"));
  }
  if (std::ranges::any_of(ids, [](int64_t id) { return id < 0; })) {
    return absl::InvalidArgumentError("got a negative id; -1 stands for no result");
  }
  RETURN_IF_ERROR(index_->Add(ids, vectors));
  return index_->num_vectors();
}

absl::StatusOr<NeighborShard::Found> NeighborShard::Search(std::span<const float> queries,
                                                           int32_t k) const {
  const std::shared_lock lock(mutex_);
  RETURN_IF_ERROR(CheckVectors(queries));
  const size_t num_results = queries.size() / static_cast<size_t>(index_->dimension()) *
                             static_cast<size_t>(std::max(k, 0));
  if (k < 1 || k > kMaxNeighbors || num_results > kMaxResults) {
    return absl::InvalidArgumentError(absl::StrCat("k is ", k, " (", num_results,
                                                   " results), expected 1 to ", kMaxNeighbors,
                                                   " and at most ", kMaxResults, " results"));
  }
  Found found{std::vector<int64_t>(num_results), std::vector<float>(num_results)};
  RETURN_IF_ERROR(index_->Search(queries, k, {found.ids, found.scores}));
  return found;
}

absl::StatusOr<ManifestEntry> NeighborShard::Seal(const std::filesystem::path& directory) {
  const std::unique_lock lock(mutex_);
  if (sealed_) return *sealed_;
  RETURN_IF_ERROR(MakeDirectories(directory));
  ASSIGN_OR_RETURN(const FileSummary file, index_->Save(directory / kIndexFile));
  Manifest manifest;
  manifest.kind = kManifestKind;
  manifest.key = description_;
  manifest.files.push_back(MakeManifestEntry(file, index_->num_vectors()));
  manifest.settings["dimension"] = absl::StrCat(index_->dimension());
  RETURN_IF_ERROR(manifest.Save(directory));
  sealed_ = manifest.files[0];
  return *sealed_;
}

}  // namespace braid
