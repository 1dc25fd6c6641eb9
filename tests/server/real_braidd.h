// A braidd in its own process, for tests and benchmarks that kill it.
#ifndef BRAID_TESTS_SERVER_REAL_BRAIDD_H_
#define BRAID_TESTS_SERVER_REAL_BRAIDD_H_

#include <grpcpp/channel.h>
#include <sys/types.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "tests/program.h"

namespace braid {

class RealBraidd {
 public:
  // `scratch` gets the home ("home") and the output of the program ("braidd.log").
  RealBraidd(std::filesystem::path program, std::filesystem::path scratch,
             std::vector<std::string> flags)
      : program_(std::move(program)), scratch_(std::move(scratch)), flags_(std::move(flags)) {}

  // Starts the program and blocks until it serves; on the same port each time. Returns false, and
  // prints its output on standard error, when it does not serve within 30 s.
  bool Start();
  // Sends SIGKILL and blocks until the process has ended.
  void Kill() { process_.reset(); }
  // Sends SIGTERM. Returns the exit code, or 128 + the signal that ended the process.
  int Terminate();

  pid_t pid() const { return process_.has_value() ? process_->pid() : 0; }
  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }
  std::filesystem::path home() const { return scratch_ / "home"; }
  // Returns a channel that shares its connection with no other channel.
  std::shared_ptr<grpc::Channel> Connect() const;

 private:
  const std::filesystem::path program_, scratch_;
  const std::vector<std::string> flags_;
  int port_ = 0;
  std::optional<TestProgram> process_;
};

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_REAL_BRAIDD_H_
