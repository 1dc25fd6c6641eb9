#include "tests/server/real_braidd.h"

#include <fcntl.h>
#include <grpcpp/create_channel.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>

#include "control/supervision/child_program.h"

namespace braid {
namespace {

std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// "braidd serves pipeline at 127.0.0.1:40211, state in ..."; 0 when it does not say so yet.
int PortIn(const std::string& text) {
  static const std::string kBefore = " at 127.0.0.1:";
  const size_t begin = text.find(kBefore);
  if (begin == std::string::npos || text.find(", state in") == std::string::npos) return 0;
  return std::atoi(text.c_str() + begin + kBefore.size());
}

std::vector<std::string> OwnEnvironment() {
  std::vector<std::string> environment;
  for (char** variable = environ; *variable != nullptr; ++variable) {
    environment.emplace_back(*variable);
  }
  return environment;
}

}  // namespace

bool RealBraidd::Start() {
  std::filesystem::create_directories(scratch_);
  const std::filesystem::path log = scratch_ / "braidd.log";
  const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  std::vector<std::string> arguments = {
      program_.string(), "--listen",      "127.0.0.1:" + std::to_string(port_),
      "--home",          home().string(), "--allow",
      scratch_.string()};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  auto child = ChildProgram::Fork({.program = program_.string(),
                                   .arguments = arguments,
                                   .environment = OwnEnvironment(),
                                   .standard_output = output,
                                   .standard_error = output});
  close(output);
  if (!child.ok() || !child->Execute().ok()) return false;
  pid_ = child->pid();
  for (int tries = 0; tries < 3000; ++tries) {
    if (const int port = PortIn(Contents(log)); port > 0) {
      port_ = port;
      return true;
    }
    if (waitpid(pid_, nullptr, WNOHANG) == pid_) {
      pid_ = 0;
      break;
    }
    poll(nullptr, 0, 10);
  }
  std::cerr << Contents(log) << std::endl;
  return false;
}

void RealBraidd::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

int RealBraidd::Terminate() {
  kill(pid_, SIGTERM);
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = 0;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::shared_ptr<grpc::Channel> RealBraidd::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // Else a client that does not read takes megabytes into its own memory.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace braid
