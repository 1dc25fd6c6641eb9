// Embedding and neighbor servers for tests: in this process, or as a separate braidd that can be
// killed.
#ifndef BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_
#define BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "tests/program.h"

namespace grpc {
class Server;
}  // namespace grpc

namespace braid {

// Services on a port of the loopback interface.
class LocalServer {
 public:
  // Port 0 selects a free port.
  explicit LocalServer(std::unique_ptr<grpc::Service> service, int port = 0);
  ~LocalServer();

  void Stop();
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  int port() const { return port_; }

 private:
  int port_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
};

// A braidd with one of its services, in its own temporary directory.
class BraiddProcess {
 public:
  // `service`: "embedding" or "neighbors".
  explicit BraiddProcess(const std::string& service);
  ~BraiddProcess();

  // Starts the program again, at the same port and over the same home.
  void Start();
  // Sends SIGKILL and blocks until the process has ended.
  void Kill() { process_.reset(); }
  void Signal(int signal);

  bool running() const { return process_.has_value(); }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path home() const { return root_ / "home"; }
  // Returns the resident memory of the process.
  int64_t ResidentBytes() const;

 private:
  const std::string service_;
  std::filesystem::path root_;
  int port_ = 0;
  std::optional<TestProgram> process_;
};

}  // namespace braid

#endif  // BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_
