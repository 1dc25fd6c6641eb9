// How the two ends of a connection notice that the other is gone, and what one connection may
// have of a server.
#ifndef BRAID_RPC_GRPC_KEEPALIVE_H_
#define BRAID_RPC_GRPC_KEEPALIVE_H_

namespace grpc {
class ServerBuilder;
}

namespace braid {

// Of a connection with calls: a ping after this long without data, and the wait for its answer.
inline constexpr int kKeepaliveTimeMs = 30'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;

// Calls of one connection at a time; further ones wait at the client.
inline constexpr int kMaxConcurrentStreams = 1024;

// Pings clients, accepts their pings of kKeepaliveTimeMs, and limits streams. A client that is cut
// off, or has stopped reading its socket, is gone after at most the sum of the two times, and
// with it what its calls hold.
void SetConnectionLimits(grpc::ServerBuilder* builder);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_KEEPALIVE_H_
