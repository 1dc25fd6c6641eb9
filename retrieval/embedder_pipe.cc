#include "retrieval/embedder_pipe.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr int kAskMilliseconds = 50;
constexpr size_t kMaxFrameBytes = size_t{1} << 33;
constexpr size_t kMaxTextBytes = size_t{1} << 31;

struct FrameHeader {
  int32_t code = 0;    // an absl::StatusCode
  uint32_t count = 0;  // number of texts, or the dimension
  uint64_t bytes = 0;
};

struct Frame {
  int32_t code = 0;
  uint32_t count = 0;
  std::string bytes;

  // UNAVAILABLE is reserved for broken connections.
  absl::Status status() const {
    const auto status_code = static_cast<absl::StatusCode>(code);
    if (status_code == absl::StatusCode::kOk) return absl::OkStatus();
    if (status_code == absl::StatusCode::kUnavailable) return absl::FailedPreconditionError(bytes);
    return absl::Status(status_code, bytes);
  }
};

absl::Status Gone() { return absl::UnavailableError("the embedding process closed its socket"); }

absl::Status WaitFor(int socket, short events, const StopCheck& keep_going) {
  pollfd ready = {.fd = socket, .events = events, .revents = 0};
  while (poll(&ready, 1, kAskMilliseconds) <= 0) {
    if (keep_going) RETURN_IF_ERROR(keep_going());
  }
  return absl::OkStatus();
}

// Transfers all of `size` bytes with `call`, send or recv.
template <class Byte, class Call>
absl::Status Transfer(int socket, Byte* bytes, size_t size, short events,
                      const StopCheck& keep_going, Call call) {
  while (size > 0) {
    RETURN_IF_ERROR(WaitFor(socket, events, keep_going));
    const ssize_t moved = call(socket, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (moved < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (moved <= 0) return Gone();
    bytes += moved;
    size -= static_cast<size_t>(moved);
  }
  return absl::OkStatus();
}

absl::Status Send(int socket, FrameHeader header, std::string_view bytes,
                  const StopCheck& keep_going) {
  header.bytes = bytes.size();
  RETURN_IF_ERROR(Transfer(socket, reinterpret_cast<const char*>(&header), sizeof(header), POLLOUT,
                           keep_going, send));
  return Transfer(socket, bytes.data(), bytes.size(), POLLOUT, keep_going, send);
}

absl::StatusOr<Frame> Receive(int socket, const StopCheck& keep_going) {
  FrameHeader header;
  RETURN_IF_ERROR(
      Transfer(socket, reinterpret_cast<char*>(&header), sizeof(header), POLLIN, keep_going, recv));
  if (header.bytes > kMaxFrameBytes) {
    return absl::InternalError(absl::StrCat("malformed frame of ", header.bytes, " bytes"));
  }
  Frame frame{header.code, header.count, std::string(header.bytes, '\0')};
  RETURN_IF_ERROR(
      Transfer(socket, frame.bytes.data(), frame.bytes.size(), POLLIN, keep_going, recv));
  return frame;
}

// Encodes texts as their lengths, 32 bits each, followed by their bytes.
std::string PackTexts(std::span<const std::string_view> texts) {
  std::string bytes;
  for (const std::string_view text : texts) {
    const auto size = static_cast<uint32_t>(text.size());
    bytes.append(reinterpret_cast<const char*>(&size), sizeof(size));
  }
  for (const std::string_view text : texts) bytes.append(text);
  return bytes;
}

absl::StatusOr<std::vector<std::string_view>> UnpackTexts(const Frame& frame) {
  const size_t count = frame.count;
  std::string_view sizes = frame.bytes, rest = frame.bytes;
  if (rest.size() < 4 * count) return absl::InternalError("malformed frame of texts");
  rest.remove_prefix(4 * count);
  std::vector<std::string_view> texts;
  for (size_t i = 0; i < count; ++i) {
    uint32_t size;
    std::memcpy(&size, sizes.data() + 4 * i, sizeof(size));
    if (size > rest.size()) return absl::InternalError("malformed frame of texts");
    texts.push_back(rest.substr(0, size));
    rest.remove_prefix(size);
  }
  return texts;
}

absl::Status SendError(int socket, const absl::Status& status) {
  return Send(socket, {.code = static_cast<int32_t>(status.code())},
              {status.message().data(), status.message().size()}, nullptr);
}

// Encodes vectors, followed by the number of texts that were truncated.
absl::StatusOr<std::string> EmbedFrame(const Embedder& embedder, const Frame& frame) {
  ASSIGN_OR_RETURN(const auto texts, UnpackTexts(frame));
  const size_t num_values = texts.size() * static_cast<size_t>(embedder.dimension());
  std::vector<float> vectors(num_values);
  ASSIGN_OR_RETURN(const int64_t num_truncated, embedder.EmbedAndCountCut(texts, vectors));
  std::string bytes(reinterpret_cast<const char*>(vectors.data()), 4 * num_values);
  return bytes.append(reinterpret_cast<const char*>(&num_truncated), sizeof(num_truncated));
}

}  // namespace

EmbedderConnection::~EmbedderConnection() { close(socket_); }

absl::StatusOr<EmbedderHello> EmbedderConnection::ReceiveHello(const StopCheck& keep_going) {
  usable_ = false;
  ASSIGN_OR_RETURN(Frame frame, Receive(socket_, keep_going));
  RETURN_IF_ERROR(frame.status());
  usable_ = true;
  return EmbedderHello{static_cast<int32_t>(frame.count), std::move(frame.bytes)};
}

absl::StatusOr<int64_t> EmbedderConnection::Embed(std::span<const std::string_view> texts,
                                                  std::span<float> vectors,
                                                  const StopCheck& keep_going) {
  const std::string packed = PackTexts(texts);
  if (packed.size() >= kMaxTextBytes) {
    return absl::InvalidArgumentError(absl::StrCat("got texts of ", packed.size(),
                                                   " bytes in one call, expected less than 2 GiB"));
  }
  usable_ = false;
  RETURN_IF_ERROR(
      Send(socket_, {.count = static_cast<uint32_t>(texts.size())}, packed, keep_going));
  ASSIGN_OR_RETURN(const Frame frame, Receive(socket_, keep_going));
  const bool complete =
      frame.code != 0 || frame.bytes.size() == vectors.size_bytes() + sizeof(int64_t);
  if (!complete) return absl::InternalError("malformed frame of vectors");
  usable_ = true;
  RETURN_IF_ERROR(frame.status());
  int64_t num_truncated;
  std::memcpy(vectors.data(), frame.bytes.data(), vectors.size_bytes());
  std::memcpy(&num_truncated, frame.bytes.data() + vectors.size_bytes(), sizeof(num_truncated));
  return num_truncated;
}

absl::Status ServeEmbedder(int socket, const absl::StatusOr<const Embedder*>& embedder) {
  if (!embedder.ok()) return SendError(socket, embedder.status());
  const FrameHeader hello = {.count = static_cast<uint32_t>((*embedder)->dimension())};
  absl::Status status = Send(socket, hello, (*embedder)->fingerprint(), nullptr);
  while (status.ok()) {
    const auto request = Receive(socket, nullptr);
    if (!request.ok()) {
      status = request.status();
      break;
    }
    const auto answer = EmbedFrame(**embedder, *request);
    status = answer.ok() ? Send(socket, {.count = request->count}, *answer, nullptr)
                         : SendError(socket, answer.status());
  }
  return absl::IsUnavailable(status) ? absl::OkStatus() : status;
}

}  // namespace braid
