#include "retrieval/embedding_client.h"

#include <grpcpp/grpcpp.h>
#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "braid/v1/embedding.grpc.pb.h"
#include "formats/status_macros.h"
#include "proto/grpc_status.h"
#include "retrieval/embedding_service.h"

namespace braid {
namespace {

// Tag and length before each text in the message.
constexpr int64_t kFramingBytes = 6;
constexpr int64_t kMaxTextsPerBatch = 4096;

struct HostPort {
  std::string host, port;
};

absl::StatusOr<HostPort> ParseAddress(const std::string& address) {
  const size_t colon = address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port) || port < 1 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat(
        "embedding server \"", address, "\": expected HOST:PORT, such as 127.0.0.1:7200"));
  }
  return HostPort{address.substr(0, colon), address.substr(colon + 1)};
}

// The numeric IPv4 addresses of a host, each with the port.
absl::StatusOr<std::vector<std::string>> ResolveIpv4(const HostPort& server) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int error = getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found);
  if (error != 0) {
    return absl::UnavailableError(absl::StrCat("embedding server ", server.host, ":", server.port,
                                               ": no IPv4 address: ", gai_strerror(error)));
  }
  std::vector<std::string> addresses;
  for (addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char host[NI_MAXHOST];
    if (getnameinfo(entry->ai_addr, entry->ai_addrlen, host, sizeof(host), nullptr, 0,
                    NI_NUMERICHOST) == 0) {
      addresses.push_back(absl::StrCat(host, ":", server.port));
    }
  }
  freeaddrinfo(found);
  return addresses;
}

// gRPC's resolvers take one DNS name or a list of numeric addresses, so several
// names are resolved here, once.
absl::StatusOr<std::string> MakeTarget(const std::vector<std::string>& addresses) {
  if (addresses.empty()) {
    return absl::InvalidArgumentError("no address of an embedding server given; set HOST:PORT");
  }
  std::vector<HostPort> servers;
  for (const std::string& address : addresses) {
    ASSIGN_OR_RETURN(HostPort server, ParseAddress(address));
    servers.push_back(std::move(server));
  }
  if (servers.size() == 1) return absl::StrCat("dns:///", addresses[0]);
  std::vector<std::string> numeric;
  for (const HostPort& server : servers) {
    ASSIGN_OR_RETURN(const std::vector<std::string> resolved, ResolveIpv4(server));
    numeric.insert(numeric.end(), resolved.begin(), resolved.end());
  }
  return absl::StrCat("ipv4:", absl::StrJoin(numeric, ","));
}

std::shared_ptr<grpc::Channel> OpenChannel(const std::string& target,
                                           const EmbeddingClientOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetLoadBalancingPolicyName("round_robin");
  arguments.SetMaxReceiveMessageSize(-1);
  // A restarted server is found again within seconds, not minutes.
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 100);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  return grpc::CreateCustomChannel(
      target, options.credentials ? options.credentials : grpc::InsecureChannelCredentials(),
      arguments);
}

// Texts [begin, end) of one request.
struct Batch {
  size_t begin, end;
};

absl::StatusOr<std::vector<Batch>> SplitIntoBatches(std::span<const std::string_view> texts,
                                                    int64_t max_bytes) {
  std::vector<Batch> batches;
  int64_t bytes = 0;
  for (size_t i = 0; i < texts.size(); ++i) {
    const int64_t text_bytes = static_cast<int64_t>(texts[i].size()) + kFramingBytes;
    if (text_bytes > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("text ", i, " of the call has ", texts[i].size(), " bytes, more than the ",
                       max_bytes - kFramingBytes, " of one request; split the document"));
    }
    const bool full = batches.empty() || bytes + text_bytes > max_bytes ||
                      i - batches.back().begin >= kMaxTextsPerBatch;
    if (full) {
      batches.push_back({i, i});
      bytes = 0;
    }
    batches.back().end = i + 1;
    bytes += text_bytes;
  }
  return batches;
}

std::string Metadata(const grpc::ClientContext& context, const char* key) {
  const auto& metadata = context.GetServerInitialMetadata();
  const auto found = metadata.find(key);
  return found == metadata.end() ? "" : std::string(found->second.data(), found->second.length());
}

std::chrono::milliseconds Backoff(int attempt) {
  return std::min(std::chrono::milliseconds(50 << std::min(attempt, 10)),
                  std::chrono::milliseconds(1000));
}

// One request, one answer and the context that carries its metadata.
struct Exchange {
  grpc::ClientContext context;
  v1::EmbedRequest request;
  v1::EmbedResponse response;
  bool answered = false;
};

absl::Status Run(v1::EmbeddingService::Stub* stub, std::chrono::milliseconds deadline,
                 Exchange* exchange) {
  exchange->context.set_deadline(std::chrono::system_clock::now() + deadline);
  const auto stream = stub->Embed(&exchange->context);
  stream->Write(exchange->request);
  stream->WritesDone();
  exchange->answered = stream->Read(&exchange->response);
  v1::EmbedResponse surplus;
  while (stream->Read(&surplus)) continue;
  return FromGrpc(stream->Finish());
}

}  // namespace

struct EmbeddingClient::Connection {
  EmbeddingClientOptions options;
  std::string target;
  std::unique_ptr<v1::EmbeddingService::Stub> stub;

  absl::Status Locate(const absl::Status& status) const {
    return absl::Status(status.code(),
                        absl::StrCat("embedding service ", target, ": ", status.message()));
  }

  // Calls `attempt` until it gives something other than UNAVAILABLE.
  template <class Attempt>
  absl::Status Retry(Attempt attempt) const {
    for (int number = 0;; ++number) {
      const absl::Status status = attempt();
      if (status.ok()) return status;
      const bool again = absl::IsUnavailable(status) && number + 1 < options.max_attempts;
      if (!again) return Locate(status);
      std::this_thread::sleep_for(Backoff(number));
    }
  }
};

EmbeddingClient::EmbeddingClient(std::unique_ptr<Connection> connection)
    : connection_(std::move(connection)) {}
EmbeddingClient::~EmbeddingClient() = default;

absl::StatusOr<std::unique_ptr<EmbeddingClient>> EmbeddingClient::Connect(
    const EmbeddingClientOptions& options) {
  auto connection = std::make_unique<Connection>();
  connection->options = options;
  ASSIGN_OR_RETURN(connection->target, MakeTarget(options.addresses));
  connection->stub = v1::EmbeddingService::NewStub(OpenChannel(connection->target, options));
  std::unique_ptr<EmbeddingClient> client(new EmbeddingClient(std::move(connection)));
  RETURN_IF_ERROR(client->connection_->Retry([&] { return client->LearnEmbedder(); }));
  return client;
}

absl::Status EmbeddingClient::LearnEmbedder() {
  Exchange exchange;
  RETURN_IF_ERROR(Run(connection_->stub.get(), connection_->options.deadline, &exchange));
  fingerprint_ = Metadata(exchange.context, kEmbedderFingerprintKey);
  if (!exchange.answered || exchange.response.dimension() < 1 || fingerprint_.empty()) {
    return absl::FailedPreconditionError(
        "no dimension or fingerprint in the answer; is it a braid embedding server?");
  }
  dimension_ = exchange.response.dimension();
  return absl::OkStatus();
}

absl::Status EmbeddingClient::EmbedOnce(std::span<const std::string_view> texts,
                                        std::span<float> vectors) const {
  Exchange exchange;
  for (std::string_view text : texts) exchange.request.add_texts(text.data(), text.size());
  RETURN_IF_ERROR(Run(connection_->stub.get(), connection_->options.deadline, &exchange));
  const std::string fingerprint = Metadata(exchange.context, kEmbedderFingerprintKey);
  if (fingerprint != fingerprint_) {
    return absl::FailedPreconditionError(absl::StrCat("servers disagree: one embeds with \"",
                                                      fingerprint, "\", another with \"",
                                                      fingerprint_, "\"; restart the odd one"));
  }
  const auto& values = exchange.response.values();
  const bool finite = std::ranges::all_of(values, [](float v) { return std::isfinite(v); });
  if (static_cast<size_t>(values.size()) != vectors.size() || !finite) {
    return absl::DataLossError(absl::StrCat("malformed answer: got ", values.size(), " values",
                                            finite ? "" : " (not all finite)", ", expected ",
                                            vectors.size()));
  }
  std::ranges::copy(values, vectors.begin());
  return absl::OkStatus();
}

absl::Status EmbeddingClient::EmbedBatch(std::span<const std::string_view> texts,
                                         std::span<float> vectors) const {
  return connection_->Retry([&] { return EmbedOnce(texts, vectors); });
}

absl::Status EmbeddingClient::Embed(std::span<const std::string_view> texts,
                                    std::span<float> vectors) const {
  const auto dimension = static_cast<size_t>(dimension_);
  if (vectors.size() != texts.size() * dimension) {
    return absl::InvalidArgumentError(absl::StrCat("embedding client: room for ", vectors.size(),
                                                   " values, expected ", texts.size(), " x ",
                                                   dimension));
  }
  const EmbeddingClientOptions& options = connection_->options;
  ASSIGN_OR_RETURN(const std::vector<Batch> batches,
                   SplitIntoBatches(texts, options.max_batch_bytes));
  std::atomic<size_t> next{0};
  std::mutex mutex;
  absl::Status first_failure;
  const auto work = [&] {
    for (size_t i; (i = next.fetch_add(1)) < batches.size();) {
      const auto [begin, end] = batches[i];
      const absl::Status status =
          EmbedBatch(texts.subspan(begin, end - begin),
                     vectors.subspan(begin * dimension, (end - begin) * dimension));
      if (status.ok()) continue;
      next = batches.size();
      const std::lock_guard lock(mutex);
      first_failure.Update(status);
    }
  };
  const size_t parallel =
      options.max_parallel > 0 ? options.max_parallel : 2 * options.addresses.size();
  {
    std::vector<std::jthread> others;
    for (size_t i = 1; i < std::min(parallel, batches.size()); ++i) others.emplace_back(work);
    work();
  }
  return first_failure;
}

}  // namespace braid
