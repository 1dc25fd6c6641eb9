#include "tests/retrieval/retrieval_server.h"

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

namespace braid {
namespace fs = std::filesystem;

LocalServer::LocalServer(std::unique_ptr<grpc::Service> service, int port)
    : port_(port), service_(std::move(service)) {
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address(), grpc::InsecureServerCredentials(), &port_);
  builder.RegisterService(service_.get());
  server_ = builder.BuildAndStart();
  EXPECT_NE(server_, nullptr);
}

LocalServer::~LocalServer() { Stop(); }

void LocalServer::Stop() { server_->Shutdown(std::chrono::system_clock::now()); }

BraiddProcess::BraiddProcess(const std::string& service) : service_(service) {
  std::string name = (fs::temp_directory_path() / "retrieval.XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) std::abort();
  root_ = name;
  Start();
}

BraiddProcess::~BraiddProcess() {
  Kill();
  fs::remove_all(root_);
}

void BraiddProcess::Start() {
  const fs::path log = root_ / "log";
  process_.emplace(std::vector<std::string>{BRAID_BIN_DIR "/braidd", "--listen", address(),
                                            "--home", home().string(), "--services", service_},
                   TestProgramOptions{.output = log, .errors = log});
  // "braidd serves ... at 127.0.0.1:PORT, state in ..."
  const std::string port = process_->WaitForOutput(" at 127.0.0.1:", ", state");
  EXPECT_FALSE(port.empty()) << process_->out();
  port_ = std::atoi(port.c_str());
}

void BraiddProcess::Signal(int signal) { process_->Signal(signal); }

int64_t BraiddProcess::ResidentBytes() const {
  std::ifstream file("/proc/" + std::to_string(process_->pid()) + "/status");
  const std::string status((std::istreambuf_iterator<char>(file)), {});
  return std::atoll(TextBetween(status, "VmRSS:", " kB").c_str()) * 1024;
}

}  // namespace braid
