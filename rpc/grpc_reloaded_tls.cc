#include "rpc/grpc_reloaded_tls.h"

#include <grpcpp/security/tls_credentials_options.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "rpc/connection_error.h"

namespace braid {
namespace {

constexpr std::chrono::seconds kLookInterval{1};
// gRPC looks at its copies this often.
constexpr unsigned kCopyLookSeconds = 1;

}  // namespace

// The descriptor is closed in children, because one of the files has the private key.
ReloadedTls::MemoryFile::MemoryFile() : descriptor_(memfd_create("braid-tls", MFD_CLOEXEC)) {}

std::string ReloadedTls::MemoryFile::path() const {
  return absl::StrCat("/proc/self/fd/", descriptor_);
}

absl::Status ReloadedTls::MemoryFile::Write(const std::string& content) const {
  if (ftruncate(descriptor_, 0) != 0 || pwrite(descriptor_, content.data(), content.size(), 0) !=
                                            static_cast<ssize_t>(content.size())) {
    return SystemError("write", path(), errno);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ReloadedTls>> ReloadedTls::Open(
    const TlsFiles& files, std::function<void(const absl::Status&)> on_event) {
  std::unique_ptr<ReloadedTls> tls(new ReloadedTls(files, std::move(on_event)));
  tls->stamp_ = tls->Stamp();
  RETURN_IF_ERROR(tls->Copy());
  // After Copy(), since the provider reads the copies at its construction.
  tls->provider_ = std::make_shared<grpc::experimental::FileWatcherCertificateProvider>(
      tls->key_.path(), tls->certificate_.path(), tls->ca_.path(), kCopyLookSeconds);
  tls->thread_ = std::thread([watched = tls.get()] { watched->Watch(); });
  return tls;
}

ReloadedTls::~ReloadedTls() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  if (thread_.joinable()) thread_.join();
}

absl::Status ReloadedTls::Copy() const {
  RETURN_IF_ERROR(CheckTlsFiles(files_));
  ASSIGN_OR_RETURN(const std::string certificate, ReadFile(files_.certificate));
  ASSIGN_OR_RETURN(const std::string key, ReadFile(files_.key));
  ASSIGN_OR_RETURN(const std::string ca, ReadFile(files_.ca));
  RETURN_IF_ERROR(certificate_.Write(certificate));
  RETURN_IF_ERROR(key_.Write(key));
  return ca_.Write(ca);
}

std::string ReloadedTls::Stamp() const {
  std::string stamp;
  for (const auto& file : {files_.certificate, files_.key, files_.ca}) {
    struct stat status = {};
    // A missing file has zeros, which is a change like any other; Copy then reports the error.
    stat(file.c_str(), &status);
    absl::StrAppend(&stamp, status.st_dev, ":", status.st_ino, ":", status.st_size, ":",
                    status.st_mtim.tv_sec, ".", status.st_mtim.tv_nsec, ":", status.st_ctim.tv_sec,
                    ".", status.st_ctim.tv_nsec, " ");
  }
  return stamp;
}

void ReloadedTls::Watch() {
  std::unique_lock lock(mutex_);
  absl::Status copied;
  while (!stopped_.wait_for(lock, kLookInterval, [this] { return stop_; })) {
    // The stamp is taken before the files are read, so that a change in between is noticed.
    const std::string stamp = Stamp();
    const bool changed = std::exchange(stamp_, stamp) != stamp;
    // After a failure, which may have been a lack of descriptors, the files are read again.
    if (!changed && copied.ok()) continue;
    absl::Status now = Copy();
    if (changed || now != copied) on_event_(now);
    copied = std::move(now);
  }
}

std::shared_ptr<grpc::ServerCredentials> ReloadedTls::ServerCredentials() const {
  grpc::experimental::TlsServerCredentialsOptions options(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  options.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  return grpc::experimental::TlsServerCredentials(options);
}

std::shared_ptr<grpc::ChannelCredentials> ReloadedTls::ChannelCredentials() const {
  grpc::experimental::TlsChannelCredentialsOptions options;
  options.set_certificate_provider(provider_);
  options.watch_root_certs();
  options.watch_identity_key_cert_pairs();
  return grpc::experimental::TlsCredentials(options);
}

}  // namespace braid
