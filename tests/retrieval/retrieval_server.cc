#include "tests/retrieval/retrieval_server.h"

#include <fcntl.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <thread>
#include <utility>

namespace braid {
namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the part of `text` between `before` and `after`; "" if there is none.
std::string Between(const std::string& text, const std::string& before, const std::string& after) {
  const size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const size_t end = text.find(after, begin + before.size());
  if (end == std::string::npos) return "";
  return text.substr(begin + before.size(), end - begin - before.size());
}

}  // namespace

bool WaitUntil(const std::function<bool()>& condition) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

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
  if (running()) Kill();
  fs::remove_all(root_);
}

void BraiddProcess::Start() {
  const std::string listen = address(), directory = home().string();
  const fs::path log = root_ / "log";
  fs::remove(log);
  const int output = open(log.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execl(BRAID_BIN_DIR "/braidd", "braidd", "--listen", listen.c_str(), "--home",
          directory.c_str(), "--services", service_.c_str(), nullptr);
    _exit(127);
  }
  close(output);
  // "braidd serves ... at 127.0.0.1:PORT, state in ..."
  std::string port;
  EXPECT_TRUE(WaitUntil([&] {
    port = Between(Contents(root_ / "log"), " at 127.0.0.1:", ", state");
    return !port.empty();
  })) << Log();
  port_ = std::atoi(port.c_str());
}

void BraiddProcess::Signal(int signal) { kill(pid_, signal); }

void BraiddProcess::Kill() {
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  pid_ = 0;
}

int64_t BraiddProcess::ResidentBytes() const {
  const std::string status = Contents("/proc/" + std::to_string(pid_) + "/status");
  return std::atoll(Between(status, "VmRSS:", " kB").c_str()) * 1024;
}

std::string BraiddProcess::Log() const { return Contents(root_ / "log"); }

}  // namespace braid
