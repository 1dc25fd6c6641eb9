// What every `braid` command shares: the global options, the connection they
// describe, and the way results and errors reach the person or program asking.
#ifndef BRAID_CLIENT_SESSION_H_
#define BRAID_CLIENT_SESSION_H_

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "client/grpc_connection.h"
#include "google/protobuf/message.h"
#include "rpc/analysis_client.h"
#include "rpc/generation_client.h"
#include "rpc/health_client.h"
#include "rpc/pipeline_client.h"
#include "rpc/training_client.h"

namespace braid {

// Exit codes of braid and braidd, as documented in docs/cli.md.
namespace exit_code {
inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;
inline constexpr int kNotFound = 3;
inline constexpr int kUnavailable = 4;
inline constexpr int kInterrupted = 130;
}  // namespace exit_code

int ExitCodeOf(const absl::Status& status);

class Session {
 public:
  ConnectionOptions options;
  // Print machine-readable results.
  bool json = false;

  // Connects, or starts the embedded service, on first use.
  // `run_jobs` lets an embedded service work on queued jobs.
  absl::StatusOr<PipelineClient> Pipeline(bool run_jobs = false);
  absl::StatusOr<TrainingClient> Training();
  absl::StatusOr<AnalysisClient> Analysis();
  absl::StatusOr<GenerationClient> Generation();
  // InvalidArgument without a server.
  absl::StatusOr<HealthClient> Health();
  bool embedded() const { return options.server.empty(); }

 private:
  absl::StatusOr<Connection*> Connect(ServiceName service, bool run_jobs = false);

  std::unique_ptr<Connection> remote_;
  // One in-process server for each service in use.
  std::map<ServiceName, std::unique_ptr<Connection>> embedded_;
};

// proto3 JSON with the names of the .proto files, one line.
std::string ToJson(const google::protobuf::Message& message);
// The same, indented.
std::string ToPrettyJson(const google::protobuf::Message& message);

}  // namespace braid

#endif  // BRAID_CLIENT_SESSION_H_
