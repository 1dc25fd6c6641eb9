// Embedding and neighbour servers for tests: in this process, or as a braidd of its own that
// can be killed.
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
  // Port 0 takes a free one.
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

// A braidd with one of its services, in a directory of its own, that dies with the thread that
// started it.
class BraiddProcess {
 public:
  // `service`: "embedding" or "neighbors".
  explicit BraiddProcess(const std::string& service);
  ~BraiddProcess();

  // Again at the same port, over the same home.
  void Start();
  // kill -9, and waits until it is gone.
  void Kill();
  void Signal(int signal);

  bool running() const { return pid_ > 0; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path home() const { return root_ / "home"; }
  // Resident bytes now.
  int64_t ResidentBytes() const;

 private:
  std::string Log() const;

  const std::string service_;
  std::filesystem::path root_;
  int port_ = 0;
  pid_t pid_ = 0;
};

// Waits until `condition`, at most 30 s; whether it came.
bool WaitUntil(const std::function<bool()>& condition);

}  // namespace braid

#endif  // BRAID_TESTS_RETRIEVAL_RETRIEVAL_SERVER_H_
