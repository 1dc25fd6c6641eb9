#include "retrieval/neighbor_shard.h"

#include <algorithm>
#include <functional>
#include <mutex>
#include <system_error>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "retrieval/document_vectors.h"
#include "retrieval/neighbor_settings.h"

namespace braid {
namespace {

constexpr char kManifestKind[] = "neighbor-shard";
constexpr char kDimensionKey[] = "dimension";
constexpr int32_t kNeighborShardMaxDimension = 65'536;
constexpr int32_t kNeighborShardMaxNeighbors = 10'000;
// Maximum results of a search: 12 bytes each fit into a message of 4 MiB.
constexpr size_t kMaxResults = 300'000;

absl::string_view View(std::string_view text) { return {text.data(), text.size()}; }

bool IsNameCharacter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
         c == '_';
}

// Returns the number of lists; 0 for exact search, nullopt for indexes searched by FAISS.
std::optional<int64_t> ListsOf(const std::string& index) {
  return index == kExactIndex ? std::optional<int64_t>(0) : PlainListsOf(index);
}

absl::Status CheckDimension(int32_t dimension) {
  if (dimension >= 1 && dimension <= kNeighborShardMaxDimension) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("dimension: got ", dimension, ", expected 1 to ", kNeighborShardMaxDimension));
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

absl::StatusOr<std::unique_ptr<NeighborShard>> NeighborShard::Create(
    const std::filesystem::path& directory, int32_t dimension, const std::string& index) {
  RETURN_IF_ERROR(CheckDimension(dimension));
  const std::string description = index.empty() ? kExactIndex : index;
  std::unique_ptr<NeighborShard> shard(new NeighborShard(directory, dimension, description));
  if (const std::optional<int64_t> num_lists = ListsOf(description)) {
    RETURN_IF_ERROR(MakeDirectories(directory));
    ASSIGN_OR_RETURN(shard->index_, CreateListedShardIndex(directory, dimension, *num_lists));
  } else {
    ASSIGN_OR_RETURN(shard->index_, CreateFaissShardIndex(directory, dimension, description));
    RETURN_IF_ERROR(MakeDirectories(directory));
  }
  return shard;
}

absl::StatusOr<std::unique_ptr<NeighborShard>> NeighborShard::Load(
    const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(const Manifest manifest, Manifest::Load(directory));
  const auto dimension = manifest.settings.find(kDimensionKey);
  int32_t d = 0;
  if (manifest.kind != kManifestKind || dimension == manifest.settings.end() ||
      !absl::SimpleAtoi(dimension->second, &d) || !CheckDimension(d).ok()) {
    return absl::DataLossError(absl::StrCat(directory.string(), ": got a manifest of kind \"",
                                            manifest.kind, "\", expected a sealed shard"));
  }
  RETURN_IF_ERROR(manifest.VerifyAll(directory));
  std::unique_ptr<NeighborShard> shard(new NeighborShard(directory, d, manifest.key));
  if (const std::optional<int64_t> num_lists = ListsOf(manifest.key)) {
    ASSIGN_OR_RETURN(shard->index_, LoadListedShardIndex(directory, d, *num_lists));
  } else {
    ASSIGN_OR_RETURN(shard->index_, LoadFaissShardIndex(directory, manifest));
  }
  shard->sealed_ = true;
  return shard;
}

NeighborShard::Description NeighborShard::Describe() const {
  const std::shared_lock lock(mutex_);
  return {dimension_, description_, index_ ? index_->num_vectors() : 0,
          index_ ? index_->num_centroids() : 0, sealed_};
}

absl::Status NeighborShard::CheckThere() const {
  return index_ ? absl::OkStatus() : absl::NotFoundError("the shard was dropped");
}

absl::Status NeighborShard::CheckOpen(std::string_view change) const {
  RETURN_IF_ERROR(CheckThere());
  if (!sealed_) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("cannot ", View(change), " a sealed shard; create another one"));
}

absl::Status NeighborShard::CheckVectors(std::span<const float> vectors) const {
  if (!vectors.empty() && vectors.size() % static_cast<size_t>(dimension_) == 0) {
    return CheckUnitVectors(vectors, dimension_);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("got ", vectors.size(),
                   " values, expected a positive multiple of the shard's dimension, ", dimension_));
}

absl::Status NeighborShard::CheckIds(std::span<const int64_t> ids) const {
  int64_t last = ids_.empty() ? -1 : ids_.back();
  for (const int64_t id : ids) {
    if (id <= last) {
      return absl::InvalidArgumentError(
          absl::StrCat("got id ", id, ", expected ascending ids: one above ", last));
    }
    last = id;
  }
  return absl::OkStatus();
}

absl::StatusOr<int64_t> NeighborShard::SetCentroids(int64_t first, std::span<const float> values) {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen("set centroids of"));
  RETURN_IF_ERROR(CheckVectors(values));
  RETURN_IF_ERROR(index_->SetCentroids(first, values));
  return index_->num_centroids();
}

absl::Status NeighborShard::Train(std::span<const float> vectors) {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen("train"));
  RETURN_IF_ERROR(CheckVectors(vectors));
  return index_->Train(vectors);
}

// Returns whether an Add repeats a call whose answer was lost.
absl::StatusOr<bool> NeighborShard::HoldsAlready(std::span<const int64_t> ids,
                                                 int64_t position) const {
  const auto held = static_cast<int64_t>(ids_.size());
  if (position == held) return false;
  const auto count = static_cast<int64_t>(ids.size());
  const bool inside = position >= 0 && position < held && count <= held - position;
  if (inside && std::equal(ids.begin(), ids.end(), ids_.begin() + position)) return true;
  return absl::FailedPreconditionError(
      absl::StrCat("the shard holds ", held, " vectors, expected ", position,
                   "; describe the shard and continue at its number of vectors"));
}

absl::StatusOr<int64_t> NeighborShard::Add(std::span<const int64_t> ids,
                                           std::span<const float> vectors,
                                           std::optional<int64_t> position) {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckOpen("add to"));
  RETURN_IF_ERROR(CheckVectors(vectors));
  const size_t num_vectors = vectors.size() / static_cast<size_t>(dimension_);
  if (num_vectors != ids.size()) {
    return absl::InvalidArgumentError(absl::StrCat("got ", num_vectors, " vectors of dimension ",
                                                   dimension_, " for ", ids.size(),
                                                   " ids, expected one id per vector"));
  }
  if (position) {
    ASSIGN_OR_RETURN(const bool repeated, HoldsAlready(ids, *position));
    if (repeated) return index_->num_vectors();
  }
  RETURN_IF_ERROR(CheckIds(ids));
  RETURN_IF_ERROR(index_->Add(ids, vectors));
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  return index_->num_vectors();
}

absl::StatusOr<NeighborShard::Found> NeighborShard::Search(std::span<const float> queries,
                                                           int32_t k, int64_t num_probes,
                                                           const StopCheck& check) const {
  const std::shared_lock lock(mutex_);
  RETURN_IF_ERROR(CheckThere());
  RETURN_IF_ERROR(CheckVectors(queries));
  const size_t num_results =
      queries.size() / static_cast<size_t>(dimension_) * static_cast<size_t>(std::max(k, 0));
  if (k < 1 || k > kNeighborShardMaxNeighbors || num_results > kMaxResults) {
    return absl::InvalidArgumentError(
        absl::StrCat("k: got ", k, " (", num_results, " results), expected 1 to ",
                     kNeighborShardMaxNeighbors, " and at most ", kMaxResults, " results"));
  }
  if (num_probes < 0 || num_probes > index_->num_lists()) {
    return absl::InvalidArgumentError(
        absl::StrCat("num_probes: got ", num_probes, ", expected 0 to ", index_->num_lists()));
  }
  Found found{std::vector<int64_t>(num_results), std::vector<float>(num_results)};
  RETURN_IF_ERROR(index_->Search(queries, k, num_probes, {found.ids, found.scores}, check));
  return found;
}

absl::StatusOr<std::filesystem::path> NeighborShard::Seal() {
  const std::unique_lock lock(mutex_);
  RETURN_IF_ERROR(CheckThere());
  if (sealed_) return directory_ / kManifestName;
  Manifest manifest;
  manifest.kind = kManifestKind;
  manifest.key = description_;
  manifest.settings[kDimensionKey] = absl::StrCat(dimension_);
  ASSIGN_OR_RETURN(manifest.files, index_->Seal());
  RETURN_IF_ERROR(manifest.Save(directory_));
  sealed_ = true;
  ids_ = {};
  return directory_ / kManifestName;
}

absl::Status NeighborShard::Drop() {
  const std::unique_lock lock(mutex_);
  // Destroys the index first: writers remove their unfinished files when they are destroyed.
  index_.reset();
  return Remove(directory_);
}

absl::Status NeighborShard::Remove(const std::filesystem::path& directory) {
  std::error_code error;
  // First, because a shard of which only a part is removed must not be found again.
  std::filesystem::remove(directory / kManifestName, error);
  std::filesystem::remove_all(directory, error);
  if (!error) return absl::OkStatus();
  return absl::InternalError(
      absl::StrCat("cannot remove ", directory.string(), ": ", error.message()));
}

}  // namespace braid
