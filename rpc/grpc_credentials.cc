#include "rpc/grpc_credentials.h"

#include <arpa/inet.h>
#include <netinet/in.h>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "rpc/connection_error.h"

namespace braid {
namespace {

absl::Status CheckPlaintext(const std::string& address, bool insecure) {
  if (insecure || IsLoopback(address)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(address,
                   " is not a loopback address: give --tls-certificate, --tls-key and --tls-ca, or "
                   "--insecure to send everything unencrypted"));
}

}  // namespace

bool IsLoopback(const std::string& address) {
  const std::string host = address.substr(0, address.rfind(':'));
  if (host == "localhost" || host == "[::1]") return true;
  // Only addresses count: anyone may register a name such as 127.example.org.
  in_addr parsed = {};
  return inet_pton(AF_INET, host.c_str(), &parsed) == 1 &&
         (ntohl(parsed.s_addr) >> 24) == IN_LOOPBACKNET;
}

absl::StatusOr<std::shared_ptr<grpc::ServerCredentials>> MakeServerCredentials(
    const std::string& address, const ReloadedTls* tls, bool insecure) {
  if (tls != nullptr) return tls->ServerCredentials();
  RETURN_IF_ERROR(CheckPlaintext(address, insecure));
  return grpc::InsecureServerCredentials();
}

absl::StatusOr<std::shared_ptr<grpc::ChannelCredentials>> MakeChannelCredentials(
    const std::string& address, const TlsFiles& tls, bool insecure) {
  if (!tls.any()) {
    RETURN_IF_ERROR(CheckPlaintext(address, insecure));
    return grpc::InsecureChannelCredentials();
  }
  RETURN_IF_ERROR(CheckTlsFiles(tls));
  grpc::SslCredentialsOptions pem;
  ASSIGN_OR_RETURN(pem.pem_cert_chain, ReadFile(tls.certificate));
  ASSIGN_OR_RETURN(pem.pem_private_key, ReadFile(tls.key));
  ASSIGN_OR_RETURN(pem.pem_root_certs, ReadFile(tls.ca));
  return grpc::SslCredentials(pem);
}

}  // namespace braid
