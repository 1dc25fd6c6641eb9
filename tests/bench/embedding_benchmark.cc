// Documents a second through embedding servers, for docs/performance.md:
//   braid-bench-embedding --servers 127.0.0.1:7101,127.0.0.1:7102
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "retrieval/embedding_client.h"

namespace {

// Texts of 1.2 KB of words from a vocabulary of 50,000.
std::vector<std::string> MakeDocuments(int count) {
  std::vector<std::string> documents(count);
  uint32_t state = 1;
  for (std::string& text : documents) {
    while (text.size() < 1200) {
      state = state * 1664525 + 1013904223;
      text += "w" + std::to_string(state % 50'000) + " ";
    }
  }
  return documents;
}

absl::Status Measure(const std::vector<std::string>& servers, int num_documents) {
  auto client = braid::EmbeddingClient::Connect({.addresses = servers});
  if (!client.ok()) return client.status();
  const std::vector<std::string> documents = MakeDocuments(num_documents);
  const std::vector<std::string_view> texts(documents.begin(), documents.end());
  std::vector<float> vectors(texts.size() * (*client)->dimension());
  const auto begin = std::chrono::steady_clock::now();
  const absl::Status status = (*client)->Embed(texts, vectors);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  if (status.ok()) {
    std::cout << servers.size() << " servers: " << num_documents / seconds.count()
              << " documents/s, " << seconds.count() << " s" << std::endl;
  }
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Documents a second through embedding servers"};
  std::vector<std::string> servers;
  int num_documents = 20'000;
  app.add_option("--servers", servers, "HOST:PORT,...")->delimiter(',')->required();
  app.add_option("--documents", num_documents)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  const absl::Status status = Measure(servers, num_documents);
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
