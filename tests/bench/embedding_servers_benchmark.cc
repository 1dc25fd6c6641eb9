// Measures documents per second through embedding servers, for docs/performance.md:
//   braid-bench-embedding-servers --serve 7101 --rounds 20 &    # the cost of 20 hashings per text
//   braid-bench-embedding-servers --servers 127.0.0.1:7101,127.0.0.1:7102
#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/service_type.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <string>
#include <vector>

#include "retrieval/embedding_client.h"
#include "retrieval/embedding_service.h"
#include "retrieval/hashing_embedder.h"

namespace {

// Returns texts of 1.2 KB with words from a vocabulary of 50,000.
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

// Simulates a slower encoder.
class CostlyEmbedder final : public braid::Embedder {
 public:
  CostlyEmbedder(std::unique_ptr<braid::Embedder> embedder, int rounds)
      : embedder_(std::move(embedder)), rounds_(rounds) {}
  int32_t dimension() const override { return embedder_->dimension(); }
  std::string fingerprint() const override { return embedder_->fingerprint(); }
  absl::Status Embed(std::span<const std::string_view> texts,
                     std::span<float> vectors) const override {
    for (int i = 1; i < rounds_; ++i) embedder_->Embed(texts, vectors).IgnoreError();
    return embedder_->Embed(texts, vectors);
  }

 private:
  const std::unique_ptr<braid::Embedder> embedder_;
  const int rounds_;
};

void Serve(int port, int rounds) {
  const auto service = braid::MakeEmbeddingService(std::make_shared<CostlyEmbedder>(
      *braid::HashingEmbedder::Create(braid::HashingOptions(), std::nullopt), rounds));
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:" + std::to_string(port), grpc::InsecureServerCredentials());
  builder.RegisterService(service.get());
  builder.BuildAndStart()->Wait();
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Measure documents per second through embedding servers"};
  std::vector<std::string> servers;
  int num_documents = 20'000;
  app.add_option("--servers", servers, "HOST:PORT,...")->delimiter(',');
  int port = 0, rounds = 1;
  app.add_option("--serve", port, "Serve on this port until killed");
  app.add_option("--rounds", rounds, "Hashings per text, with --serve")->capture_default_str();
  app.add_option("--documents", num_documents)->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (port > 0) Serve(port, rounds);
  const absl::Status status = Measure(servers, num_documents);
  if (!status.ok()) std::cerr << status.message() << std::endl;
  return status.ok() ? 0 : 1;
}
