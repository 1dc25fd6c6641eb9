#include "rpc/certificate_expiry.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include <algorithm>
#include <ctime>
#include <limits>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"

namespace braid {

absl::StatusOr<int64_t> CertificateExpiry(const std::filesystem::path& file) {
  ASSIGN_OR_RETURN(const std::string pem, ReadFile(file));
  const std::unique_ptr<BIO, decltype(&BIO_free)> source(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())), &BIO_free);
  constexpr int64_t kNone = std::numeric_limits<int64_t>::max();
  int64_t first = kNone;
  while (X509* const read = PEM_read_bio_X509(source.get(), nullptr, nullptr, nullptr)) {
    const std::unique_ptr<X509, decltype(&X509_free)> certificate(read, &X509_free);
    tm end = {};
    if (ASN1_TIME_to_tm(X509_get0_notAfter(certificate.get()), &end) == 1) {
      first = std::min<int64_t>(first, timegm(&end));
    }
  }
  ERR_clear_error();  // the end of the file is an error
  if (first != kNone) return first;
  return absl::InvalidArgumentError(
      absl::StrCat(file.string(), ": expected PEM with at least one certificate"));
}

}  // namespace braid
