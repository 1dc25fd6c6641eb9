#include "rpc/connection_error.h"

#include <netdb.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace braid {
namespace {

struct KnownError {
  const char* text;  // in the message of gRPC
  const char* plain;
};

constexpr char kClosed[] =
    "it closed the connection; check whether it requires TLS or another certificate";

// The first text that a message contains decides, so a cause has to precede its consequences, such
// as a failed handshake.
constexpr KnownError kKnownErrors[] = {
    {"Connection refused", "connection refused"},
    {"DNS resolution failed", "the host name does not resolve"},
    {"No route to host", "no route to the host"},
    {"Network is unreachable", "the network is unreachable"},
    {"certificate verify failed", "its certificate is not signed by the given authority"},
    {"WRONG_VERSION_NUMBER", "it does not use TLS"},
    {"wrong version number", "it does not use TLS"},
    {"Ssl handshake failed", "the TLS handshake failed"},
    {"Peer name", "its certificate is for another host"},
    {"Hostname Verification", "its certificate is for another host"},
    {"Socket closed", kClosed},
    {"Connection reset", kClosed},
    {"Broken pipe", kClosed},
    {"onnection timed out", "connection timed out"},  // with a capital or without
    {"Deadline Exceeded", "no answer"},
    {"handshaker shutdown", "no answer"},
    {"SETTINGS frame", "no answer"},
    {"http2 header with status", "another program answers there"},
    {"GOAWAY", "it is shutting down"},
};

struct FreeTls {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
  void operator()(SSL* connection) const { SSL_free(connection); }
};

// A socket that is closed at the end.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_(descriptor) {}
  ~Socket() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return descriptor_; }

 private:
  const int descriptor_;
};

absl::Status Unavailable(const std::string& address, const std::string& why) {
  return absl::UnavailableError(absl::StrCat("no braidd answers at ", address, ": ", why));
}

std::string HostOf(const std::string& address) {
  std::string host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[') host = host.substr(1, host.size() - 2);
  return host;
}

// Returns the descriptor of a connection.
absl::StatusOr<int> ConnectTcp(const std::string& address, int seconds) {
  const std::string host = HostOf(address);
  addrinfo hints = {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  if (getaddrinfo(host.c_str(), address.c_str() + address.rfind(':') + 1, &hints, &list) != 0) {
    return Unavailable(
        address, absl::StrCat("the host name \"", host, "\" does not resolve; check its spelling"));
  }
  const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> owner(list, &freeaddrinfo);
  int error_number = 0;
  for (; list != nullptr; list = list->ai_next) {
    const int descriptor = socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) {
      error_number = errno;
      continue;
    }
    const timeval limit = {seconds, 0};
    // It limits connect() as well, which then fails with EINPROGRESS (socket(7)).
    setsockopt(descriptor, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
    setsockopt(descriptor, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
    if (connect(descriptor, list->ai_addr, list->ai_addrlen) == 0) return descriptor;
    error_number = errno;
    close(descriptor);
  }
  if (error_number == ECONNREFUSED) {
    return Unavailable(address,
                       absl::StrCat("connection refused; start one: braidd --listen ", address));
  }
  if (error_number == EINPROGRESS || error_number == ETIMEDOUT || error_number == EAGAIN) {
    return Unavailable(address, absl::StrCat("no connection within ", seconds,
                                             " s; check the address and the firewall"));
  }
  return Unavailable(address, std::strerror(error_number));
}

absl::Status FileProblem(const std::string& option, const std::filesystem::path& file,
                         const char* what) {
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(option, " ", file.string(), ": ", what));
}

absl::StatusOr<std::unique_ptr<SSL_CTX, FreeTls>> LoadFiles(const TlsFiles& tls) {
  if (tls.certificate.empty() || tls.key.empty() || tls.ca.empty()) {
    return absl::InvalidArgumentError(
        "TLS needs all three of --tls-certificate, --tls-key and --tls-ca");
  }
  // For the cause when a file cannot be read: the messages below are about its content.
  for (const std::filesystem::path& file : {tls.certificate, tls.key, tls.ca}) {
    RETURN_IF_ERROR(ReadFile(file).status());
  }
  std::unique_ptr<SSL_CTX, FreeTls> context(SSL_CTX_new(TLS_client_method()));
  if (SSL_CTX_load_verify_locations(context.get(), tls.ca.c_str(), nullptr) != 1) {
    return FileProblem("--tls-ca", tls.ca, "expected PEM with at least one certificate");
  }
  if (SSL_CTX_use_certificate_chain_file(context.get(), tls.certificate.c_str()) != 1) {
    return FileProblem("--tls-certificate", tls.certificate, "expected a PEM certificate chain");
  }
  // The check of the key against the certificate has an error of its own.
  if (SSL_CTX_use_PrivateKey_file(context.get(), tls.key.c_str(), SSL_FILETYPE_PEM) != 1) {
    const bool other = ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_VALUES_MISMATCH ||
                       ERR_GET_REASON(ERR_peek_last_error()) == X509_R_KEY_TYPE_MISMATCH;
    return FileProblem("--tls-key", tls.key,
                       other ? "does not belong to the certificate of --tls-certificate"
                             : "expected an unencrypted PEM private key");
  }
  return context;
}

// Explains why the server rejected this side, from the alert that it sent; "" without one.
std::string ExplainAlert() {
  switch (ERR_GET_REASON(ERR_peek_last_error())) {
    case SSL_R_TLSV1_ALERT_UNKNOWN_CA:
    case SSL_R_SSLV3_ALERT_BAD_CERTIFICATE:
    case SSL_R_SSLV3_ALERT_CERTIFICATE_UNKNOWN:
    case SSL_R_TLSV1_ALERT_DECRYPT_ERROR:
      return "the server does not accept the certificate of --tls-certificate; use one that the "
             "authority of its --tls-ca has signed";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_EXPIRED:
      return "the server reports that the certificate of --tls-certificate has expired";
    case SSL_R_SSLV3_ALERT_CERTIFICATE_REVOKED:
      return "the server reports that the certificate of --tls-certificate is revoked";
    case SSL_R_WRONG_VERSION_NUMBER:
    case SSL_R_HTTP_REQUEST:
    case SSL_R_PACKET_LENGTH_TOO_LONG:
      return "the server does not use TLS; leave out --tls-certificate, --tls-key and --tls-ca";
    default:
      return "";
  }
}

// Explains the result of verifying the server's certificate.
std::string ExplainVerification(long result, const std::string& host) {
  switch (result) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
      return absl::StrCat("the server's certificate is not for \"", host,
                          "\"; use a name or address that it lists");
    case X509_V_ERR_CERT_HAS_EXPIRED:
      return "the server's certificate has expired; renew it there";
    case X509_V_ERR_CERT_NOT_YET_VALID:
      return "the server's certificate is not valid yet; check the clocks of both machines";
    default:
      return "the server's certificate is not signed by the authority of --tls-ca; give the CA "
             "certificate of that server";
  }
}

void ExpectHost(const std::string& host, SSL* connection) {
  X509_VERIFY_PARAM* const expected = SSL_get0_param(connection);
  if (X509_VERIFY_PARAM_set1_ip_asc(expected, host.c_str()) == 1) return;
  // A name, not an address; only names may be sent in the handshake (RFC 6066).
  ERR_clear_error();
  SSL_set1_host(connection, host.c_str());
  SSL_set_tlsext_host_name(connection, host.c_str());
}

}  // namespace

absl::Status PlainConnectionError(const absl::Status& status) {
  if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status) &&
      !absl::IsUnimplemented(status)) {
    return status;
  }
  const std::string message(status.message());
  for (const KnownError& known : kKnownErrors) {
    if (absl::StrContains(message, known.text)) return absl::Status(status.code(), known.plain);
  }
  return status;
}

absl::Status UnansweredCallError(const std::string& address, const absl::Status& status) {
  if (absl::IsDeadlineExceeded(status)) {
    return absl::DeadlineExceededError(absl::StrCat(
        "braidd at ", address, " did not answer in time; check it with: braid --server ", address,
        " health"));
  }
  if (absl::IsCancelled(status)) {
    return absl::CancelledError(absl::StrCat("the call to braidd at ", address, " was canceled"));
  }
  if (!absl::IsUnavailable(status)) return status;
  const absl::Status plain = PlainConnectionError(status);
  // The text of kClosed blames settings, which were right if the connection had been in use.
  const bool is_explained = plain != status && plain.message() != kClosed;
  return absl::UnavailableError(absl::StrCat("braidd at ", address, " went away",
                                             is_explained ? ": " : "",
                                             is_explained ? plain.message() : ""));
}

absl::Status CheckTlsFiles(const TlsFiles& tls) { return LoadFiles(tls).status(); }

absl::Status DiagnoseConnection(const std::string& address, const TlsFiles& tls, int seconds) {
  std::unique_ptr<SSL_CTX, FreeTls> context;
  if (tls.any()) {
    ASSIGN_OR_RETURN(context, LoadFiles(tls));
  }
  ASSIGN_OR_RETURN(const int descriptor, ConnectTcp(address, seconds));
  const Socket socket(descriptor);
  if (context == nullptr) return absl::OkStatus();
  const std::unique_ptr<SSL, FreeTls> connection(SSL_new(context.get()));
  const std::string host = HostOf(address);
  ExpectHost(host, connection.get());
  SSL_set_verify(connection.get(), SSL_VERIFY_PEER, nullptr);
  // gRPC ends a connection on which HTTP/2 was not negotiated.
  constexpr unsigned char kProtocols[] = "\x02h2";
  SSL_set_alpn_protos(connection.get(), kProtocols, sizeof(kProtocols) - 1);
  SSL_set_fd(connection.get(), descriptor);
  // ExplainAlert() would take an earlier error of this thread for one of the handshake.
  ERR_clear_error();
  char byte = 0;
  // With TLS 1.3, the server checks the certificate of the client after the handshake of the
  // client. If it accepts the certificate, it sends its HTTP/2 settings, of which one byte is read.
  const bool shook_hands = SSL_connect(connection.get()) == 1;
  if (shook_hands && SSL_read(connection.get(), &byte, 1) == 1) return absl::OkStatus();
  const std::string alert = ExplainAlert();
  const long verified = SSL_get_verify_result(connection.get());
  ERR_clear_error();
  const std::string where = absl::StrCat("cannot connect to ", address, " over TLS: ");
  if (!alert.empty()) return absl::UnavailableError(where + alert);
  if (verified != X509_V_OK) {
    return absl::UnavailableError(where + ExplainVerification(verified, host));
  }
  if (shook_hands) {
    return absl::UnavailableError(where +
                                  "the server closed the connection when it got the certificate of "
                                  "--tls-certificate; use one "
                                  "that the authority of its --tls-ca has signed");
  }
  return absl::UnavailableError(
      where + "the server closed the connection or did not answer; check its log");
}

}  // namespace braid
