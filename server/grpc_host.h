// The services of one process: in-process for the embedded `braid`, on a port
// for `braidd`.
#ifndef BRAID_SERVER_GRPC_HOST_H_
#define BRAID_SERVER_GRPC_HOST_H_

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rpc/tls_files.h"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace braid {

class CallObserver;
class Gate;

enum class ServiceName { kPipeline, kTraining, kAnalysis, kGeneration, kEmbedding, kNeighbors };

// "pipeline,training" -> set; InvalidArgument names an unknown one.
absl::StatusOr<std::set<ServiceName>> ParseServiceNames(const std::string& list);

// What one principal may have at a time; 0: no limit.
struct Quotas {
  int64_t jobs = 1000;       // queued or running
  int64_t runs = 64;         // that have not ended
  int64_t ranks = 4096;      // of those runs
  int64_t watches = 2000;    // open, of jobs and of runs each
  int64_t descriptions = 8;  // corpora being described
};

// Of the generation service: models in memory, and requests; docs/generation.md.
struct Serving {
  int models = 2;
  int active = 4;
  int queue = 64;
  int idle_seconds = 300;
  int num_threads = 0;  // of a model; 0: all cores
  bool together = false;
};

struct HostOptions {
  // State of jobs and runs.
  std::filesystem::path home;
  std::set<ServiceName> services;
  // "127.0.0.1:7077"; empty serves in-process only. Port 0 picks a free one.
  std::string listen;
  // Also what jobs show to embedding and neighbour servers, and of whom they expect the like.
  TlsFiles tls;
  // What jobs show to those servers, over TLS or on this machine; may be empty.
  std::string services_token;
  // Work on queued corpus jobs, not only answer questions about them.
  bool run_jobs = true;
  // Of the embedding service: "hashing", or "contriever:DIRECTORY" for the BERT encoder
  // there, in a process of its own.
  std::string embedder = "hashing";
  // Of launches: a path or a name in PATH; see LauncherPrograms.
  std::string mpirun = "mpirun";
  std::string remote_agent;
  Quotas quotas;
  Serving serving;
  // Serve an address beyond loopback without TLS, or TLS without tokens.
  bool insecure = false;
  // Ask every caller on a port for a token, on loopback without TLS too.
  bool require_token = false;
  // What a caller who shows no good token waits for its answer.
  std::chrono::milliseconds refusal_delay{100};
  // Told of every call that comes through the port.
  std::vector<std::shared_ptr<CallObserver>> observers;
};

// Two servers: one without a port that has the services, and one on the port that has
// nothing but the gate (server/access/grpc_gate.h) through which every call gets to them.
class ServiceHost {
 public:
  // Errors: InvalidArgument for an address beyond loopback without TLS or for
  // unusable TLS files, Unavailable when the address cannot be bound.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(const HostOptions& options);
  ~ServiceHost();

  std::shared_ptr<grpc::Channel> InProcessChannel();
  // The port bound; 0 when in-process only.
  int port() const { return port_; }
  // Health is NOT_SERVING, new calls and watches end as UNAVAILABLE, other calls finish or are
  // cancelled when the grace period ends; then the services stop, a job at its next commit point.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  ServiceHost();
  absl::Status StartServices(const HostOptions& options);
  absl::Status OpenPort(const HostOptions& options);

  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<grpc::Server> port_server_;
  int port_ = 0;
};

}  // namespace braid

#endif  // BRAID_SERVER_GRPC_HOST_H_
