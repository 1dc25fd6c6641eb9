// Assembles and runs the services of one process: in-process for the embedded `braid`, on a port
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
#include "server/connection_acceptor.h"
#include "server/expiries.h"

namespace grpc {
class Channel;
class Server;
class Service;
}  // namespace grpc

namespace braid {

class CallObserver;
class Gate;
class ReloadedTls;

enum class ServiceName {
  kPipeline,
  kTraining,
  kAnalysis,
  kGeneration,
  kStorage,
  kEmbedding,
  kNeighbors
};

// Parses "pipeline,training". InvalidArgument names an unknown service.
absl::StatusOr<std::set<ServiceName>> ParseServiceNames(const std::string& list);

// Limits for one principal at a time; 0: no limit.
struct Quotas {
  int64_t jobs = 1000;       // queued or running
  int64_t runs = 64;         // not ended
  int64_t ranks = 4096;      // in total over runs that have not ended
  int64_t watches = 2000;    // open watches of jobs, and as many of runs
  int64_t descriptions = 8;  // DescribeCorpus calls in progress
  int64_t evaluations = 0;   // calls in progress of AnalysisService that compute with a model
};

// Options of the generation service; docs/generation.md describes them.
struct Serving {
  int models = 2;  // models in memory at a time
  int active = 4;  // requests in progress at a time
  int queue = 64;  // requests that wait
  int idle_seconds = 300;
  int num_threads = 0;    // for each model; 0: all cores
  bool together = false;  // one step for all texts of a model; docs/generation.md
};

struct HostOptions {
  // Directory with the state of jobs and runs; a relative path is one below the working directory.
  std::filesystem::path home;
  // Directory of the lists of jobs and runs (jobs.sqlite, runs.sqlite); empty: `home`.
  std::filesystem::path state;
  std::set<ServiceName> services;
  // "127.0.0.1:7077"; empty serves in-process only. Port 0 picks a free one.
  std::string listen;
  // Jobs also use these files with embedding and neighbor servers: to identify themselves and to
  // verify those servers.
  TlsFiles tls;
  // The token that jobs send to those servers, over TLS or on this machine; may be empty.
  std::string services_token;
  // Runs queued corpus jobs; otherwise this process only answers requests about them.
  bool run_jobs = true;
  // Embedder of the embedding service: "hashing", or "contriever:DIRECTORY" for the BERT encoder in
  // that directory, which runs in a separate process.
  std::string embedder = "hashing";
  // Program that launches runs: a path or a name in PATH; see LauncherPrograms.
  std::string mpirun = "mpirun";
  std::string remote_agent;
  Quotas quotas;
  Serving serving;
  // Allows an address beyond loopback without TLS, and TLS without tokens.
  bool insecure = false;
  // Requires a token from every caller on the port, also on loopback without TLS.
  bool require_token = false;
  // Delay of the answer to a caller without a valid token.
  std::chrono::milliseconds refusal_delay{100};
  // Limits on the connections to the port.
  ConnectionLimits connections;
  // Notified of every call that comes through the port.
  std::vector<std::shared_ptr<CallObserver>> observers;
};

// Exit code of a process that cannot be reached any more: EX_UNAVAILABLE of sysexits.h.
inline constexpr int kDeafExitCode = 69;

// Two gRPC servers: one without a port that has the services, and one on the port that has only the
// gate (server/access/grpc_gate.h), through which every call from outside reaches the services.
class ServiceHost {
 public:
  // Starts the services, and listens on the port if there is one. A process that no connection
  // reaches any more ends with kDeafExitCode, so that a service manager starts it again. Errors:
  // InvalidArgument for an address beyond loopback without TLS, for one of another machine or for
  // unusable TLS files; Unavailable when the port is in use.
  static absl::StatusOr<std::unique_ptr<ServiceHost>> Start(const HostOptions& given);
  ~ServiceHost();

  std::shared_ptr<grpc::Channel> InProcessChannel();
  // Returns the port that is listened on; 0 when in-process only.
  int port() const { return port_; }
  // Returns the counts of connections to the port.
  ConnectionCounts Connections() const;
  // From now on health reports NOT_SERVING, and calls through the port are refused as in Shutdown.
  // In-process calls are still served.
  void RefuseCalls();
  // Shuts down in this order: health reports NOT_SERVING; new calls and open watches end with
  // UNAVAILABLE; other calls finish, or are cancelled after `grace`; the services stop, a job at
  // its next commit point.
  void Shutdown(std::chrono::milliseconds grace);

 private:
  ServiceHost();
  absl::Status ReadTls(const HostOptions& options);
  absl::Status StartServices(const HostOptions& options);
  absl::Status OpenPort(const HostOptions& options);

  std::unique_ptr<ReloadedTls> tls_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<Gate> gate_;
  std::unique_ptr<grpc::Server> port_server_;
  std::unique_ptr<ConnectionAcceptor> acceptor_;
  std::unique_ptr<ExpiryReminder> reminder_;
  int port_ = 0;
};

}  // namespace braid

#endif  // BRAID_SERVER_GRPC_HOST_H_
