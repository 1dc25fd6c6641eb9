// A certificate authority for tests.
#ifndef BRAID_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_
#define BRAID_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_

#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>

namespace braid {

// PEM.
struct TestCertificate {
  std::string certificate;
  std::string key;
};

class TestAuthority {
 public:
  explicit TestAuthority(const std::string& name);

  // The certificate of the authority in PEM.
  const std::string& certificate() const { return pem_.certificate; }
  // Issues a certificate for localhost and 127.0.0.1 that is valid from a day ago to `days` from now.
  TestCertificate Issue(const std::string& common_name, int days = 1) const;

 private:
  struct FreeKey {
    void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
  };
  using Key = std::unique_ptr<EVP_PKEY, FreeKey>;
  struct Subject;

  TestCertificate Make(const Subject& subject, EVP_PKEY* signer, bool is_authority, int days) const;

  std::string name_;
  Key key_;
  TestCertificate pem_;
};

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_ACCESS_TEST_CERTIFICATES_H_
