// Credentials that follow their files: a renewed certificate is used by the connections made a few
// seconds later, without a restart.
#ifndef BRAID_RPC_GRPC_RELOADED_TLS_H_
#define BRAID_RPC_GRPC_RELOADED_TLS_H_

#include <grpcpp/security/credentials.h>
#include <grpcpp/security/server_credentials.h>
#include <grpcpp/security/tls_certificate_provider.h>

#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/statusor.h"
#include "rpc/tls_files.h"

namespace braid {

// Reads the files again when one of them changes. gRPC watches copies in memory, which are replaced
// only by a key that belongs to the certificate: while a renewal is half done, and after a failed
// one, the earlier files remain in use.
class ReloadedTls {
 public:
  // `on_event` is called from another thread after each change of the files, with OK once they are
  // in use and otherwise with the reason why they are not. Errors: INVALID_ARGUMENT for files that
  // are missing or do not fit together.
  static absl::StatusOr<std::unique_ptr<ReloadedTls>> Open(
      const TlsFiles& files, std::function<void(const absl::Status&)> on_event);
  // Connections made later use the files as last read.
  ~ReloadedTls();

  // Require and verify the certificate of the other side.
  std::shared_ptr<grpc::ServerCredentials> ServerCredentials() const;
  std::shared_ptr<grpc::ChannelCredentials> ChannelCredentials() const;

 private:
  // A file in memory that has a path. It is never closed, because gRPC reads the path as long as a
  // connection exists, and its descriptor would be that of another file by then.
  class MemoryFile {
   public:
    MemoryFile();
    absl::Status Write(const std::string& content) const;
    std::string path() const;

   private:
    const int descriptor_;
  };

  ReloadedTls(const TlsFiles& files, std::function<void(const absl::Status&)> on_event)
      : files_(files), on_event_(std::move(on_event)) {}
  absl::Status Copy() const;
  // Returns a text that differs when a file has changed.
  std::string Stamp() const;
  void Watch();

  const TlsFiles files_;
  const std::function<void(const absl::Status&)> on_event_;
  MemoryFile certificate_, key_, ca_;
  std::shared_ptr<grpc::experimental::CertificateProviderInterface> provider_;
  std::string stamp_;  // after Open(), accessed only by thread_
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_RPC_GRPC_RELOADED_TLS_H_
