// A braidd of its own process, for tests and benchmarks that kill it.
#ifndef BRAID_TESTS_SERVER_REAL_BRAIDD_H_
#define BRAID_TESTS_SERVER_REAL_BRAIDD_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

namespace braid {

class RealBraidd {
 public:
  // `scratch` gets the home ("home") and what the program prints ("braidd.log").
  RealBraidd(std::filesystem::path program, std::filesystem::path scratch,
             std::vector<std::string> flags)
      : program_(std::move(program)), scratch_(std::move(scratch)), flags_(std::move(flags)) {}
  ~RealBraidd() { Kill(); }

  // Returns when it serves; on the same port each time. False, with its output on standard
  // error, when it does not within 30 s.
  bool Start();
  // SIGKILL; returns when it is gone.
  void Kill();
  // SIGTERM; its exit code when it is gone, 128 + the signal when that ended it.
  int Terminate();

  pid_t pid() const { return pid_; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path home() const { return scratch_ / "home"; }
  // A connection of its own.
  std::shared_ptr<grpc::Channel> Connect() const;

 private:
  const std::filesystem::path program_, scratch_;
  const std::vector<std::string> flags_;
  int port_ = 0;
  pid_t pid_ = 0;
};

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_REAL_BRAIDD_H_
