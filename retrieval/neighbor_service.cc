#include "retrieval/neighbor_service.h"

#include <grpcpp/grpcpp.h>

#include <optional>
#include <span>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "braid/v1/neighbors.grpc.pb.h"
#include "retrieval/neighbor_shard.h"
#include "retrieval/shard_table.h"
#include "retrieval/work_slots.h"
#include "rpc/grpc_status.h"

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

// Returns a check that ends the work of a client that disconnected or whose deadline has passed.
StopCheck WhileWanted(grpc::ServerContext* context) {
  return [context] {
    return context->IsCancelled()
               ? absl::CancelledError("the client disconnected or its deadline has passed")
               : absl::OkStatus();
  };
}

class NeighborServiceImpl final : public v1::NeighborService::Service {
 public:
  explicit NeighborServiceImpl(const std::filesystem::path& home)
      : table_(home), slots_(RetrievalThreads()) {}

  grpc::Status Create(grpc::ServerContext*, const v1::CreateShardRequest* request,
                      v1::CreateShardResponse*) override {
    return ToGrpc(table_.Create(request->shard(), request->dimension(), request->index()));
  }

  grpc::Status Describe(grpc::ServerContext*, const v1::DescribeShardRequest* request,
                        v1::ShardDescription* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) {
      const NeighborShard::Description description = shard.Describe();
      response->set_dimension(description.dimension);
      response->set_index(description.index);
      response->set_num_vectors(description.num_vectors);
      response->set_num_centroids(description.num_centroids);
      response->set_sealed(description.sealed);
      return absl::OkStatus();
    });
  }

  grpc::Status SetCentroids(grpc::ServerContext*, const v1::SetCentroidsRequest* request,
                            v1::SetCentroidsResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      ASSIGN_OR_RETURN(const int64_t num_centroids,
                       shard.SetCentroids(request->first(), AsSpan(request->values())));
      response->set_num_centroids(num_centroids);
      return absl::OkStatus();
    });
  }

  grpc::Status Train(grpc::ServerContext*, const v1::TrainShardRequest* request,
                     v1::TrainShardResponse*) override {
    return WithShard(request->shard(),
                     [&](NeighborShard& shard) { return shard.Train(AsSpan(request->values())); });
  }

  grpc::Status Add(grpc::ServerContext*, const v1::AddVectorsRequest* request,
                   v1::AddVectorsResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      const auto position =
          request->has_position() ? std::optional(request->position()) : std::nullopt;
      ASSIGN_OR_RETURN(const int64_t num_vectors,
                       shard.Add(AsSpan(request->ids()), AsSpan(request->values()), position));
      response->set_num_vectors(num_vectors);
      return absl::OkStatus();
    });
  }

  grpc::Status Search(grpc::ServerContext* context, const v1::SearchRequest* request,
                      v1::SearchResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      const StopCheck check = WhileWanted(context);
      ASSIGN_OR_RETURN(const WorkSlots::Slot slot, slots_.Take(check));
      ASSIGN_OR_RETURN(
          const NeighborShard::Found found,
          shard.Search(AsSpan(request->values()), request->k(), request->num_probes(), check));
      response->mutable_ids()->Add(found.ids.begin(), found.ids.end());
      response->mutable_scores()->Add(found.scores.begin(), found.scores.end());
      return absl::OkStatus();
    });
  }

  grpc::Status Seal(grpc::ServerContext*, const v1::SealShardRequest* request,
                    v1::SealShardResponse* response) override {
    return WithShard(request->shard(), [&](NeighborShard& shard) -> absl::Status {
      ASSIGN_OR_RETURN(const std::filesystem::path manifest, shard.Seal());
      ASSIGN_OR_RETURN(const FileSummary file, SummarizeFile(manifest));
      response->set_path(manifest.string());
      response->set_crc32c(file.crc32c);
      return absl::OkStatus();
    });
  }

  grpc::Status Drop(grpc::ServerContext*, const v1::DropShardRequest* request,
                    v1::DropShardResponse* response) override {
    // Not by WithShard(), which verifies the shard: a damaged one could not be dropped.
    const absl::StatusOr<bool> existed = table_.Drop(request->shard());
    if (!existed.ok()) return ToGrpc(existed.status());
    response->set_existed(*existed);
    return grpc::Status::OK;
  }

 private:
  template <class Action>
  grpc::Status WithShard(const std::string& name, Action action) {
    // Shared, so that a concurrent Drop() does not destroy the shard during the call.
    const absl::StatusOr<std::shared_ptr<NeighborShard>> shard = table_.Find(name);
    if (!shard.ok()) return ToGrpc(shard.status());
    return ToGrpc(Locate(name, action(**shard)));
  }

  ShardTable table_;
  WorkSlots slots_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeNeighborService(const std::filesystem::path& home) {
  return std::make_unique<NeighborServiceImpl>(home);
}

}  // namespace braid
