// The programs as a user runs them, in a home of their own.
#ifndef BRAID_TESTS_CLI_CLI_FIXTURE_H_
#define BRAID_TESTS_CLI_CLI_FIXTURE_H_

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "tests/program.h"

namespace braid {

using Arguments = std::vector<std::string>;

struct Outcome {
  int exit_code = -1;  // 128 + the signal's number when one ended the program
  std::string output, errors;
};

inline std::string Contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A temporary directory and, when the parameter is true, a braidd that uses it.
class CliFixture : public ::testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "cli_test.XXXXXX").string();
    ASSERT_NE(mkdtemp(name.data()), nullptr);
    root_ = name;
    if (GetParam()) StartServer();
  }

  void TearDown() override {
    if (server_.has_value()) {
      server_->Signal(SIGTERM);
      EXPECT_EQ(server_->Wait(), 0) << server_->err();
    }
    EXPECT_TRUE(RemoveDirectory(root_));
  }

  void StartServer() {
    server_.emplace(Arguments{BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.1:0", "--metrics",
                              "127.0.0.1:0", "--home", home(), "--allow", root_.string()});
    // "braidd serves ... at 127.0.0.1:PORT, state in ..."
    address_ = server_->WaitForOutput(" at ", ", state");
    ASSERT_FALSE(address_.empty()) << server_->err();
    metrics_port_ =
        std::atoi(server_->WaitForOutput("metrics at http://127.0.0.1:", "/metrics").c_str());
    ASSERT_GT(metrics_port_, 0);
  }

  // Sends a request to the metrics port. Returns the response, empty if none came.
  std::string HttpResponse(const std::string& request) const {
    const int socket_fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address = {};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(metrics_port_));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(socket_fd, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(send(socket_fd, request.data(), request.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(request.size()));
    std::string response;
    char buffer[4096];
    for (ssize_t n; (n = recv(socket_fd, buffer, sizeof buffer, 0)) > 0;)
      response.append(buffer, n);
    close(socket_fd);
    return response;
  }

  // Returns the samples of GET /metrics: "name{labels}" to value.
  std::map<std::string, double> Scrape() const {
    const std::string response = HttpResponse("GET /metrics HTTP/1.0\r\n\r\n");
    EXPECT_THAT(response, ::testing::HasSubstr("200 OK"));
    std::map<std::string, double> values;
    std::istringstream lines(response.substr(response.find("\r\n\r\n") + 4));
    for (std::string line; std::getline(lines, line);) {
      if (line.empty() || line[0] == '#') continue;
      const size_t space = line.rfind(' ');
      values[line.substr(0, space)] = std::strtod(line.c_str() + space, nullptr);
    }
    return values;
  }

  // Runs braid with the arguments, connected to the braidd when there is one.
  Outcome Braid(const Arguments& arguments, std::optional<uint64_t> max_file_bytes = {}) {
    Arguments all = {BRAID_BIN_DIR "/braid", "--home", home()};
    if (!address_.empty()) all.insert(all.end(), {"--server", address_});
    all.insert(all.end(), arguments.begin(), arguments.end());
    return Run(all, max_file_bytes);
  }

  Outcome Run(const Arguments& arguments, std::optional<uint64_t> max_file_bytes = {}) {
    TestProgram program(
        arguments,
        {.output = root_ / "out", .errors = root_ / "err", .max_file_bytes = max_file_bytes});
    Outcome outcome;
    outcome.exit_code = program.Wait();
    outcome.output = Contents(root_ / "out");
    outcome.errors = Contents(root_ / "err");
    return outcome;
  }

  std::string home() const { return (root_ / "home").string(); }

  std::string File(const std::string& name, const std::string& text) {
    std::ofstream(root_ / name, std::ios::binary) << text;
    return (root_ / name).string();
  }

  // Writes enough varied text for a vocabulary of 300 pieces and several instances.
  std::string Corpus(const std::string& name = "corpus.jsonl") {
    std::ostringstream lines;
    unsigned state = 1;
    for (int document = 0; document < 400; ++document) {
      lines << "{\"text\": \"";
      for (int word = 0; word < 40; ++word) {
        for (int letter = 0; letter < 5; ++letter) {
          state = state * 1664525 + 1013904223;
          lines << static_cast<char>('a' + (state >> 24) % 26);
        }
        lines << ' ';
      }
      lines << "\", \"domain\": \"" << (document % 2 == 0 ? "even" : "odd") << "\"}\n";
    }
    return File(name, lines.str());
  }

  Outcome Submit(const Arguments& more, std::optional<uint64_t> max_file_bytes = {}) {
    Arguments all = {"submit", "--wait", "--set", "tokenizer.vocab_size=300"};
    all.insert(all.end(), {"--set", "pack.sequence_length=64"});
    all.insert(all.end(), more.begin(), more.end());
    return Braid(all, max_file_bytes);
  }

  // Returns the manifest of the only packed dataset: names, lengths and checksums of its files.
  std::string PackManifest() const {
    for (const auto& entry :
         std::filesystem::directory_iterator(std::filesystem::path(home()) / "store")) {
      if (entry.path().filename().string().rfind("pack-", 0) == 0) {
        return Contents(entry.path() / "manifest.json");
      }
    }
    return "";
  }

  Outcome Train(const Arguments& more) {
    Arguments all = {"train", "--wait"};
    for (const char* setting : {"d_model=16", "num_layers=1", "num_heads=2", "d_ff=32"}) {
      all.insert(all.end(), {"--set", std::string("model.") + setting});
    }
    all.insert(all.end(), more.begin(), more.end());
    return Braid(all);
  }

  std::filesystem::path root_;
  std::optional<TestProgram> server_;
  std::string address_;
  int metrics_port_ = 0;
};

// Expects the exit code, one message that begins with the program's name and contains `parts`, and
// no sign of a crash.
inline void ExpectError(const Outcome& outcome, int exit_code,
                        const std::vector<std::string>& parts) {
  EXPECT_EQ(outcome.exit_code, exit_code) << outcome.output << outcome.errors;
  EXPECT_THAT(outcome.errors, ::testing::HasSubstr("braid: "));
  for (const std::string& part : parts) EXPECT_THAT(outcome.errors, ::testing::HasSubstr(part));
  EXPECT_THAT(outcome.errors,
              ::testing::AllOf(::testing::Not(::testing::HasSubstr("terminate called")),
                               ::testing::Not(::testing::HasSubstr("libprotobuf")),
                               ::testing::Not(::testing::HasSubstr("what()")),
                               ::testing::Not(::testing::HasSubstr("Aborted")),
                               ::testing::Not(::testing::HasSubstr("    @ "))));
}

}  // namespace braid

#endif  // BRAID_TESTS_CLI_CLI_FIXTURE_H_
