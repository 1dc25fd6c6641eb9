#include "retrieval/neighbor_service.h"

#include <grpcpp/grpcpp.h>

#include <map>
#include <mutex>
#include <span>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "braid/v1/neighbors.grpc.pb.h"
#include "formats/manifest.h"
#include "formats/status_macros.h"
#include "proto/grpc_status.h"
#include "retrieval/neighbor_shard.h"

namespace braid {
namespace {

template <class T>
std::span<const T> AsSpan(const google::protobuf::RepeatedField<T>& field) {
  return {field.data(), static_cast<size_t>(field.size())};
}

absl::Status Locate(const std::string& shard, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("shard ", shard, ": ", status.message()));
}

// The shards of one home by name: those in memory, and sealed ones on disk.
class ShardTable {
 public:
  explicit ShardTable(std::filesystem::path home) : home_(std::move(home)) {}

  std::filesystem::path Directory(const std::string& name) const { return home_ / name; }

  absl::Status Create(const v1::CreateShardRequest& request) {
    RETURN_IF_ERROR(CheckShardName(request.shard()));
    const std::lock_guard lock(mutex_);
    const auto sealed = Directory(request.shard()) / kManifestName;
    std::error_code unreadable;
    if (shards_.contains(request.shard()) || std::filesystem::exists(sealed, unreadable)) {
      return absl::AlreadyExistsError(
          absl::StrCat("shard ", request.shard(), " exists already; choose another name"));
    }
    ASSIGN_OR_RETURN(shards_[request.shard()],
                     NeighborShard::Create(request.dimension(), request.index()));
    return absl::OkStatus();
  }

  absl::StatusOr<std::shared_ptr<NeighborShard>> Find(const std::string& name) {
    RETURN_IF_ERROR(CheckShardName(name));
    const std::lock_guard lock(mutex_);
    if (const auto found = shards_.find(name); found != shards_.end()) return found->second;
    absl::StatusOr<std::unique_ptr<NeighborShard>> loaded = NeighborShard::Load(Directory(name));
    if (absl::IsNotFound(loaded.status())) {
      return absl::NotFoundError(absl::StrCat("no shard ", name, " here; create it first"));
    }
    if (!loaded.ok()) return Locate(name, loaded.status());
    return shards_[name] = *std::move(loaded);
  }

 private:
  std::filesystem::path home_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<NeighborShard>> shards_;  // guarded by mutex_
};

class NeighborServiceImpl final : public v1::NeighborService::Service {
 public:
  explicit NeighborServiceImpl(const std::filesystem::path& home) : table_(home) {}

  grpc::Status Create(grpc::ServerContext*, const v1::CreateShardRequest* request,
                      v1::CreateShardResponse*) override {
    return ToGrpc(table_.Create(*request));
  }

  grpc::Status Train(grpc::ServerContext*, const v1::TrainShardRequest* request,
                     v1::TrainShardResponse*) override {
    return WithShard(request->shard(),
                     [&](NeighborShard& shard) { return shard.Train(AsSpan(request->values())); });
  }

  grpc::Status Add(grpc::ServerContext*, const v1::AddVectorsRequest* request,
                   v1::AddVectorsResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t num_vectors,
                       shard.Add(AsSpan(request->ids()), AsSpan(request->values())));
      response->set_num_vectors(num_vectors);
      return absl::OkStatus();
    });
  }

  grpc::Status Search(grpc::ServerContext*, const v1::SearchRequest* request,
                      v1::SearchResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      ASSIGN_OR_RETURN(const NeighborShard::Found found,
                       shard.Search(AsSpan(request->values()), request->k()));
      response->mutable_ids()->Add(found.ids.begin(), found.ids.end());
      response->mutable_scores()->Add(found.scores.begin(), found.scores.end());
      return absl::OkStatus();
    });
  }

  grpc::Status Seal(grpc::ServerContext*, const v1::SealShardRequest* request,
                    v1::SealShardResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      const std::filesystem::path directory = table_.Directory(request->shard());
      ASSIGN_OR_RETURN(const ManifestEntry file, shard.Seal(directory));
      response->set_path((directory / file.name).string());
      response->set_crc32c(file.crc32c);
      return absl::OkStatus();
    });
  }

 private:
  template <class Action>
  grpc::Status WithShard(const std::string& name, Action action) {
    const absl::StatusOr<std::shared_ptr<NeighborShard>> shard = table_.Find(name);
    if (!shard.ok()) return ToGrpc(shard.status());
    return ToGrpc(Locate(name, action(**shard)));
  }

  ShardTable table_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeNeighborService(const std::filesystem::path& home) {
  return std::make_unique<NeighborServiceImpl>(home);
}

}  // namespace braid
