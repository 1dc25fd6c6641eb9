// The state that all `braid` commands share: the global options, connections, exit codes and JSON
// output.
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
#include "rpc/storage_client.h"
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

// Returns the exit code for the outcome of a command.
int ExitCodeOf(const absl::Status& status);

// The global options of one invocation and its connections. Not thread-safe.
class Session {
 public:
  ConnectionOptions options;
  // Print machine-readable results.
  bool json = false;

  // Return a client of a service. The first call connects, or starts the service in this process;
  // with `run_jobs`, that service also processes queued jobs. Errors as Connection::Open.
  absl::StatusOr<PipelineClient> Pipeline(bool run_jobs = false);
  absl::StatusOr<TrainingClient> Training();
  absl::StatusOr<AnalysisClient> Analysis();
  absl::StatusOr<GenerationClient> Generation();
  absl::StatusOr<StorageClient> Storage();
  // InvalidArgument without --server.
  absl::StatusOr<HealthClient> Health();
  // Returns whether services run in this process.
  bool embedded() const { return options.server.empty(); }

 private:
  absl::StatusOr<Connection*> Connect(ServiceName service, bool run_jobs = false);

  std::unique_ptr<Connection> remote_;
  // One in-process server for each service in use.
  std::map<ServiceName, std::unique_ptr<Connection>> embedded_;
};

// Returns proto3 JSON with the field names of the .proto files, on one line.
std::string ToJson(const google::protobuf::Message& message);
// Returns the same JSON, indented.
std::string ToPrettyJson(const google::protobuf::Message& message);

}  // namespace braid

#endif  // BRAID_CLIENT_SESSION_H_
