// Embedding and neighbor servers for tests: in this process, or as a separate braidd that can be
// killed.
#ifndef BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_
#define BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_

#include <grpcpp/impl/codegen/service_type.h>
#include <sys/types.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

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

// A braidd with one of its services and its own directory. It is killed when the thread that
// started it ends.
class BraiddProcess {
 public:
  // `service`: "embedding" or "neighbors".
  explicit BraiddProcess(const std::string& service);
  ~BraiddProcess();

  // Restarts it at the same port with the same home.
  void Start();
  // Kills it with SIGKILL and waits for its end.
  void Kill();
  void Signal(int signal);

  bool running() const { return pid_ > 0; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path home() const { return root_ / "home"; }
  // Returns the resident bytes.
  int64_t ResidentBytes() const;

 private:
  std::string Log() const;

  const std::string service_;
  std::filesystem::path root_;
  int port_ = 0;
  pid_t pid_ = 0;
};

// Waits at most 30 s until `condition` is true; returns whether it is.
bool WaitUntil(const std::function<bool()>& condition);

}  // namespace braid

#endif  // BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_
