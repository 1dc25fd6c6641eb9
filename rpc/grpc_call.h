// Client calls with a deadline that return absl::Status.
#ifndef BRAID_RPC_GRPC_CALL_H_
#define BRAID_RPC_GRPC_CALL_H_

#include <grpcpp/channel.h>
#include <grpcpp/client_context.h>
#include <grpcpp/support/sync_stream.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "rpc/grpc_status.h"
#include "rpc/interrupt.h"
#include "rpc/request_text.h"

namespace braid {

inline constexpr auto kUnaryDeadline = std::chrono::seconds(60);
// Deadline of watches and long computations; a watch can be resumed by event number.
inline constexpr auto kStreamDeadline = std::chrono::hours(24 * 7);

template <class Request>
Request WithId(const std::string& id) {
  Request request;
  request.set_id(id);
  return request;
}

// Makes a unary call; InvalidArgument for a request with text that is not UTF-8, as for all calls:
//   Call<Response>(*stub, &Stub::Method, request)
template <class Response, class Stub, class Request>
absl::StatusOr<Response> Call(Stub& stub,
                              grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                           Response*),
                              const Request& request) {
  if (const absl::Status text = CheckUtf8(request); !text.ok()) return text;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kUnaryDeadline);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  // The channel of a braidd has replaced this text (CallIdentity).
  if (IsPassedDeadline(status)) {
    return absl::DeadlineExceededError(
        absl::StrCat("the service in this process did not answer within ", kUnaryDeadline.count(),
                     " s; repeat the command"));
  }
  if (!status.ok()) return FromGrpc(status);
  return response;
}

// Cancels a call soon after Ctrl-C, or after `given_up` returns true, even while its stream is
// silent. `given_up` is called from a thread of this object.
class CancelOnInterrupt {
 public:
  explicit CancelOnInterrupt(grpc::ClientContext& context, std::function<bool()> given_up = nullptr)
      : thread_([&context, given_up = std::move(given_up)](std::stop_token ended) {
          const auto over = [&] { return Interrupted() || (given_up && given_up()); };
          while (!ended.stop_requested() && !over()) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
          }
          if (over()) context.TryCancel();
        }) {}

 private:
  std::jthread thread_;
};

// Makes a unary call for work that takes long. CANCELLED after Ctrl-C if the program catches it.
template <class Response, class Stub, class Request>
absl::StatusOr<Response> LongCall(Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*),
                                  const Request& request) {
  if (const absl::Status text = CheckUtf8(request); !text.ok()) return text;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + kStreamDeadline);
  const CancelOnInterrupt cancel(context);
  Response response;
  const grpc::Status status = (stub.*method)(&context, request, &response);
  if (!status.ok()) return FromGrpc(status);
  return response;
}

// Reads a server stream until its end or until `on_message` returns false. CANCELLED after Ctrl-C
// if the program catches it (rpc/interrupt.h), and when `given_up`, which is called from another
// thread, returns true.
template <class Message, class Stub, class Request>
absl::Status ReadStream(Stub& stub,
                        std::unique_ptr<grpc::ClientReader<Message>> (Stub::*method)(
                            grpc::ClientContext*, const Request&),
                        const Request& request,
                        const std::function<bool(const Message&)>& on_message,
                        std::function<bool()> given_up = nullptr,
                        std::chrono::milliseconds deadline = kStreamDeadline) {
  if (const absl::Status text = CheckUtf8(request); !text.ok()) return text;
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + deadline);
  auto reader = (stub.*method)(&context, request);
  const CancelOnInterrupt cancel(context, std::move(given_up));
  Message message;
  while (reader->Read(&message)) {
    if (on_message(message)) continue;
    context.TryCancel();
    while (reader->Read(&message)) {
    }
    reader->Finish();
    return absl::OkStatus();
  }
  return FromGrpc(reader->Finish());
}

// Reads a server stream whose last event has the result of `activity`; reports every event and
// returns the one with the result. Errors: those of ReadStream; INTERNAL when there is no result.
template <class Event, class Stub, class Request>
absl::StatusOr<Event> ReadResult(Stub& stub,
                                 std::unique_ptr<grpc::ClientReader<Event>> (Stub::*method)(
                                     grpc::ClientContext*, const Request&),
                                 const Request& request,
                                 const std::function<void(const Event&)>& on_event,
                                 const std::string& activity) {
  std::optional<Event> last;
  const absl::Status status = ReadStream<Event>(
      stub, method, request, std::function<bool(const Event&)>([&](const Event& event) {
        on_event(event);
        if (event.has_result()) last = event;
        return true;
      }));
  if (!status.ok()) return status;
  if (last) return *std::move(last);
  return absl::InternalError("the " + activity + " ended without a result");
}

// Maximum time for which a watch tries to reach a server that is unavailable.
inline constexpr auto kReconnectFor = std::chrono::seconds(60);
inline constexpr auto kReconnectPause = std::chrono::milliseconds(200);

// Returns whether a call that ended with this status should be repeated: the server is unavailable,
// cancelled its calls to shut down, or did not answer in time. The latter also happens to a call
// during which this process was stopped.
inline bool LostServer(const absl::Status& ended) {
  return absl::IsUnavailable(ended) || absl::IsCancelled(ended) || absl::IsDeadlineExceeded(ended);
}

// Reads a stream of numbered events, starting after the request's after_event. When the server
// becomes unavailable, the watch is resumed after the newest event, so `on_event` receives every
// event exactly once. Returns the error once the server has been unavailable for `reconnect_for`;
// silence of a running server does not count. A call that lasts at least half as long is taken as
// proof that the server was there, because gRPC abandons an attempt to connect within 20 s. A watch
// may last longer than a call: one that reaches its `deadline` is followed by another. `on_lost` is
// called once for each time that the server is unavailable for a twelfth of `reconnect_for`; most
// restarts are shorter.
// `channel` is the stub's. Its connection is waited for rather than slept for: without a thread
// that polls it, gRPC 1.51 notices the end of an attempt to connect only every 5 s.
template <class Event, class Stub, class Request>
absl::Status WatchEvents(grpc::ChannelInterface& channel, Stub& stub,
                         std::unique_ptr<grpc::ClientReader<Event>> (Stub::*method)(
                             grpc::ClientContext*, const Request&),
                         Request request, const std::function<bool(const Event&)>& on_event,
                         std::chrono::milliseconds reconnect_for = kReconnectFor,
                         std::chrono::milliseconds deadline = kStreamDeadline,
                         const std::function<void()>& on_lost = nullptr) {
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> lost;  // when the server was first found unavailable
  bool is_reported = false;
  while (true) {
    const Clock::time_point called = Clock::now();
    bool received = false;
    const absl::Status ended = ReadStream<Event>(
        stub, method, request, std::function<bool(const Event&)>([&](const Event& event) {
          received = true;
          request.set_after_event(event.number());
          return on_event(event);
        }),
        nullptr, deadline);
    const Clock::time_point now = Clock::now();
    // The deadline is of another clock, which may have been set.
    if (absl::IsDeadlineExceeded(ended) && now - called > deadline / 2) {
      lost.reset();
      continue;
    }
    if (!lost || received || now - called > reconnect_for / 2) {
      lost = now;
      is_reported = false;
    }
    if (!LostServer(ended) || Interrupted() || now - *lost > reconnect_for) return ended;
    if (on_lost && !is_reported && now - *lost > reconnect_for / 12) {
      is_reported = true;
      on_lost();
    }
    const auto pause_end = std::chrono::system_clock::now() + kReconnectPause;
    channel.WaitForConnected(pause_end);
    std::this_thread::sleep_until(pause_end);
  }
}

// Returns all pages of a list, merged into one response.
template <class Response, class Stub, class Request>
absl::StatusOr<Response> AllPages(Stub& stub,
                                  grpc::Status (Stub::*method)(grpc::ClientContext*, const Request&,
                                                               Response*)) {
  Response all;
  Request request;
  do {
    const absl::StatusOr<Response> page = Call<Response>(stub, method, request);
    if (!page.ok()) return page.status();
    all.MergeFrom(*page);
    request.set_page_token(page->next_page_token());
  } while (!request.page_token().empty());
  all.clear_next_page_token();
  return all;
}

}  // namespace braid

#endif  // BRAID_RPC_GRPC_CALL_H_
