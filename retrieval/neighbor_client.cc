#include "retrieval/neighbor_client.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/host_port.h"
#include "base/status_macros.h"
#include "braid/v1/neighbors.grpc.pb.h"
#include "retrieval/grpc_channel.h"
#include "retrieval/retry_delay.h"
#include "rpc/connection_error.h"
#include "rpc/grpc_status.h"

namespace braid {
namespace {

using Clock = std::chrono::steady_clock;
using Stub = v1::NeighborService::Stub;
using std::chrono::milliseconds;

constexpr milliseconds kStopInterval{50};

bool IsTransientSearchError(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
}

bool Stops(const NeighborClient::Stop& stop) { return stop && stop(); }

// The PrepareAsync method of a unary call of the stub.
template <class Request, class Response>
using Method = std::unique_ptr<grpc::ClientAsyncResponseReader<Response>> (Stub::*)(
    grpc::ClientContext*, const Request&, grpc::CompletionQueue*);

// Waits for the answer or for `stop`. Fails at once without a connection.
template <class Request, class Response>
absl::Status CallOnce(Stub* stub, Method<Request, Response> method, const Request& request,
                      Response* response, milliseconds deadline, const NeighborClient::Stop& stop) {
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  grpc::CompletionQueue queue;
  const auto call = (stub->*method)(&context, request, &queue);
  call->StartCall();
  grpc::Status status;
  call->Finish(response, &status, nullptr);
  void* tag;
  bool ok;
  while (queue.AsyncNext(&tag, &ok, std::chrono::system_clock::now() + kStopInterval) ==
         grpc::CompletionQueue::TIMEOUT) {
    if (Stops(stop)) context.TryCancel();
  }
  // gRPC requires that a queue is drained before its destruction.
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) continue;
  return FromGrpc(status);
}

void Wait(milliseconds delay, const NeighborClient::Stop& stop) {
  const auto end = Clock::now() + delay;
  while (Clock::now() < end && !Stops(stop)) {
    std::this_thread::sleep_for(std::min(kStopInterval, delay));
  }
}

}  // namespace

struct NeighborClient::Connection {
  std::string address;
  NeighborClientOptions options;
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<Stub> stub;

  template <class Request, class Response>
  absl::Status Call(Method<Request, Response> method, const Request& request, Response* response,
                    milliseconds deadline, const Stop& stop) const {
    Clock::time_point give_up;  // set by the first failure
    absl::Status problem;       // the last error other than an expired deadline
    Waiting waiting(this);
    for (int failures = 0;; ++failures) {
      auto limit = deadline;
      if (failures > 0) {
        if (!Connect(give_up, stop) && !Stops(stop)) return GivenUp(problem);
        // A call whose deadline is longer than give_up_after gets all of it again.
        const auto left = std::chrono::duration_cast<milliseconds>(give_up - Clock::now());
        if (deadline < options.give_up_after) limit = std::min(deadline, left);
      }
      absl::Status status = CallOnce(stub.get(), method, request, response, limit, stop);
      if (Stops(stop)) return absl::CancelledError("the search was canceled");
      // Not by this client: a server that shuts down cancels the calls that it has not answered.
      if (absl::IsCancelled(status)) status = absl::UnavailableError("the server shuts down");
      if (!IsTransientSearchError(status)) return status;
      if (problem.ok() || absl::IsUnavailable(status)) problem = PlainConnectionError(status);
      if (failures == 0) give_up = Clock::now() + options.give_up_after;
      waiting.Report(problem);
      Wait(RetryDelay(failures), stop);
      if (Clock::now() >= give_up) return GivenUp(problem);
      grpc::experimental::ChannelResetConnectionBackoff(
          channel.get());  // this loop has waited already
    }
  }

  // Waits for a connection until `end`; returns whether there is one.
  bool Connect(Clock::time_point end, const Stop& stop) const {
    while (Clock::now() < end && !Stops(stop)) {
      if (channel->WaitForConnected(std::chrono::system_clock::now() + kStopInterval)) return true;
    }
    return false;
  }

  // Reports once that a call waits for the server, and that it does so no longer.
  class Waiting {
   public:
    explicit Waiting(const Connection* connection) : connection_(connection) {}
    ~Waiting() {
      if (reported_) connection_->options.on_waiting(connection_->address, "");
    }
    void Report(const absl::Status& problem) {
      if (reported_ || !connection_->options.on_waiting) return;
      reported_ = true;
      connection_->options.on_waiting(
          connection_->address,
          absl::StrCat(connection_->address, " (", std::string(problem.message()),
                       "); waiting up to ", connection_->options.give_up_after.count() / 1000.0,
                       " s"));
    }

   private:
    const Connection* const connection_;
    bool reported_ = false;
  };

  absl::Status GivenUp(const absl::Status& status) const {
    return absl::Status(
        status.code(),
        absl::StrCat(status.message(), " (gave up after ", options.give_up_after.count() / 1000.0,
                     " s; start the server again, then resume the job)"));
  }
};

NeighborClient::NeighborClient(std::string address, std::unique_ptr<Connection> connection)
    : address_(std::move(address)), connection_(std::move(connection)) {}
NeighborClient::~NeighborClient() = default;

absl::StatusOr<std::unique_ptr<NeighborClient>> NeighborClient::Make(
    const std::string& address, const NeighborClientOptions& options) {
  RETURN_IF_ERROR(CheckHostPort("neighbor server", address));
  auto connection = std::make_unique<Connection>();
  connection->address = address;
  connection->options = options;
  connection->channel = OpenRetrievalChannel(address);
  connection->stub = v1::NeighborService::NewStub(connection->channel);
  return std::unique_ptr<NeighborClient>(new NeighborClient(address, std::move(connection)));
}

absl::Status NeighborClient::Locate(const std::string& shard, const absl::Status& status) const {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat("neighbor server ", address_, ", shard ", shard,
                                                  ": ", ExplainRefusal(status).message()));
}

absl::Status NeighborClient::Create(const std::string& shard, int32_t dimension,
                                    const std::string& index, const Stop& stop) const {
  v1::CreateShardRequest request;
  request.set_shard(shard);
  request.set_dimension(dimension);
  request.set_index(index);
  v1::CreateShardResponse response;
  return Locate(shard, connection_->Call(&Stub::PrepareAsyncCreate, request, &response,
                                         connection_->options.deadline, stop));
}

absl::StatusOr<std::optional<ShardState>> NeighborClient::Describe(const std::string& shard,
                                                                   const Stop& stop) const {
  v1::DescribeShardRequest request;
  request.set_shard(shard);
  v1::ShardDescription response;
  // The first call that names a sealed shard reads and verifies it, which takes long.
  const absl::Status status = connection_->Call(&Stub::PrepareAsyncDescribe, request, &response,
                                                connection_->options.seal_deadline, stop);
  if (absl::IsNotFound(status)) return std::optional<ShardState>();
  RETURN_IF_ERROR(Locate(shard, status));
  return ShardState{response.dimension(), response.index(), response.num_vectors(),
                    response.num_centroids(), response.sealed()};
}

absl::Status NeighborClient::SetCentroids(const std::string& shard, int64_t first,
                                          std::span<const float> values, const Stop& stop) const {
  v1::SetCentroidsRequest request;
  request.set_shard(shard);
  request.set_first(first);
  request.mutable_values()->Add(values.begin(), values.end());
  v1::SetCentroidsResponse response;
  return Locate(shard, connection_->Call(&Stub::PrepareAsyncSetCentroids, request, &response,
                                         connection_->options.deadline, stop));
}

absl::Status NeighborClient::Add(const std::string& shard, int64_t position, int64_t first_id,
                                 int64_t count, std::span<const float> values,
                                 const Stop& stop) const {
  v1::AddVectorsRequest request;
  request.set_shard(shard);
  request.set_position(position);
  for (int64_t i = 0; i < count; ++i) request.add_ids(first_id + i);
  request.mutable_values()->Add(values.begin(), values.end());
  v1::AddVectorsResponse response;
  return Locate(shard, connection_->Call(&Stub::PrepareAsyncAdd, request, &response,
                                         connection_->options.deadline, stop));
}

absl::Status NeighborClient::Seal(const std::string& shard, const Stop& stop) const {
  v1::SealShardRequest request;
  request.set_shard(shard);
  v1::SealShardResponse response;
  return Locate(shard, connection_->Call(&Stub::PrepareAsyncSeal, request, &response,
                                         connection_->options.seal_deadline, stop));
}

absl::StatusOr<NeighborClient::Hits> NeighborClient::Search(const std::string& shard, int32_t k,
                                                            int64_t num_probes,
                                                            std::span<const float> values,
                                                            const Stop& stop) const {
  v1::SearchRequest request;
  request.set_shard(shard);
  request.set_k(k);
  request.set_num_probes(num_probes);
  request.mutable_values()->Add(values.begin(), values.end());
  v1::SearchResponse response;
  RETURN_IF_ERROR(Locate(shard, connection_->Call(&Stub::PrepareAsyncSearch, request, &response,
                                                  connection_->options.deadline, stop)));
  return Hits{{response.ids().begin(), response.ids().end()},
              {response.scores().begin(), response.scores().end()}};
}

absl::Status NeighborClient::Drop(const std::string& shard, milliseconds deadline) const {
  v1::DropShardRequest request;
  request.set_shard(shard);
  v1::DropShardResponse response;
  return Locate(shard, CallOnce(connection_->stub.get(), &Stub::PrepareAsyncDrop, request,
                                &response, deadline, nullptr));
}

}  // namespace braid
