// Detection of broken connections, and limits for each connection.
#ifndef BRAID_RPC_GRPC_KEEPALIVE_H_
#define BRAID_RPC_GRPC_KEEPALIVE_H_

namespace grpc {
class ServerBuilder;
}

namespace braid {

// Idle time after which a connection with calls is pinged, and the time to wait for the answer.
inline constexpr int kKeepaliveTimeMs = 30'000;
inline constexpr int kKeepaliveTimeoutMs = 20'000;

// Maximum concurrent calls of one connection; further calls wait at the client.
inline constexpr int kMaxConcurrentStreams = 1024;

// Time for the TLS and HTTP/2 handshakes of a connection, before any call is identified.
inline constexpr int kHandshakeTimeoutMs = 20'000;
// Time after which a connection without calls is closed; clients connect again with the next call.
inline constexpr int kMaxIdleMs = 300'000;

// Makes a server ping its clients, accept their pings every kKeepaliveTimeMs, and limit streams.
// The calls of a client that is disconnected, or has stopped reading its socket, end after at most
// the sum of the two times and release what they hold.
void SetConnectionLimits(grpc::ServerBuilder* builder);

}  // namespace braid

#endif  // BRAID_RPC_GRPC_KEEPALIVE_H_
