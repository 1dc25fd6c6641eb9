// The expiry date of a certificate.
#ifndef BRAID_RPC_CERTIFICATE_EXPIRY_H_
#define BRAID_RPC_CERTIFICATE_EXPIRY_H_

#include <cstdint>
#include <filesystem>

#include "absl/status/statusor.h"

namespace braid {

// Returns the time, in Unix seconds, at which the first of the certificates in a PEM file expires.
// INVALID_ARGUMENT for a file without certificates; the errors of reading it.
absl::StatusOr<int64_t> CertificateExpiry(const std::filesystem::path& file);

}  // namespace braid

#endif  // BRAID_RPC_CERTIFICATE_EXPIRY_H_
