#include "tests/server/real_braidd.h"

#include <grpcpp/create_channel.h>
#include <signal.h>

#include <cstdlib>
#include <iostream>

namespace braid {

bool RealBraidd::Start() {
  Kill();
  std::filesystem::create_directories(scratch_);
  std::vector<std::string> arguments = {
      program_.string(), "--listen",      "127.0.0.1:" + std::to_string(port_),
      "--home",          home().string(), "--allow",
      scratch_.string()};
  arguments.insert(arguments.end(), flags_.begin(), flags_.end());
  const std::filesystem::path log = scratch_ / "braidd.log";
  process_.emplace(arguments, TestProgramOptions{.output = log, .errors = log});
  // "braidd serves pipeline at 127.0.0.1:40211, state in ..."
  const std::string port = process_->WaitForOutput(" at 127.0.0.1:", ", state in");
  if (port.empty()) {
    std::cerr << process_->out() << std::endl;
    Kill();
    return false;
  }
  port_ = std::atoi(port.c_str());
  return true;
}

int RealBraidd::Terminate() {
  process_->Signal(SIGTERM);
  const int exit_code = process_->Wait();
  process_.reset();
  return exit_code;
}

std::shared_ptr<grpc::Channel> RealBraidd::Connect() const {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 50);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 200);
  // Without this, a client that does not read takes megabytes into its own memory.
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  return grpc::CreateCustomChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace braid
