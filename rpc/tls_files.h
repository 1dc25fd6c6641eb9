// The PEM files of one side of a mutual TLS connection.
#ifndef BRAID_RPC_TLS_FILES_H_
#define BRAID_RPC_TLS_FILES_H_

#include <filesystem>

namespace braid {

// Paths of PEM files: this side's certificate and key, and the CA that signed the other side's
// certificate. Either all three are set or none is.
struct TlsFiles {
  std::filesystem::path certificate;
  std::filesystem::path key;
  std::filesystem::path ca;

  bool any() const { return !certificate.empty() || !key.empty() || !ca.empty(); }
};

}  // namespace braid

#endif  // BRAID_RPC_TLS_FILES_H_
