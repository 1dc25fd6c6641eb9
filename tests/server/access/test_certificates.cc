#include "tests/server/access/test_certificates.h"

#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <ctime>

namespace braid {
namespace {

constexpr long kDay = 24 * 60 * 60;

std::string Text(BIO* bio) {
  char* data = nullptr;
  const long size = BIO_get_mem_data(bio, &data);
  std::string text(data, static_cast<size_t>(size));
  BIO_free(bio);
  return text;
}

std::string PemOf(X509* certificate) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_X509(bio, certificate);
  return Text(bio);
}

std::string PemOf(EVP_PKEY* key) {
  BIO* const bio = BIO_new(BIO_s_mem());
  PEM_write_bio_PrivateKey(bio, key, nullptr, nullptr, 0, nullptr, nullptr);
  return Text(bio);
}

void SetName(X509_NAME* name, const std::string& common_name) {
  X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
}

void AddExtension(X509* certificate, int kind, const char* value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, certificate, certificate, nullptr, nullptr, 0);
  X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, &context, kind, value);
  X509_add_ext(certificate, extension, -1);
  X509_EXTENSION_free(extension);
}

}  // namespace

struct TestAuthority::Subject {
  std::string name;
  EVP_PKEY* key;
};

TestAuthority::TestAuthority(const std::string& name) : name_(name), key_(EVP_EC_gen("P-256")) {
  pem_ = Make({name, key_.get()}, key_.get(), /*is_authority=*/true, /*days=*/1);
}

TestCertificate TestAuthority::Issue(const std::string& common_name, int days) const {
  const Key key(EVP_EC_gen("P-256"));
  return Make({common_name, key.get()}, key_.get(), /*is_authority=*/false, days);
}

TestCertificate TestAuthority::Make(const Subject& subject, EVP_PKEY* signer, bool is_authority,
                                    int days) const {
  static long serial = 0;
  X509* const certificate = X509_new();
  X509_set_version(certificate, X509_VERSION_3);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate), ++serial);
  X509_gmtime_adj(X509_getm_notBefore(certificate), -3 * kDay);
  X509_gmtime_adj(X509_getm_notAfter(certificate), days * kDay);
  X509_set_pubkey(certificate, subject.key);
  SetName(X509_get_subject_name(certificate), subject.name);
  SetName(X509_get_issuer_name(certificate), name_);
  if (is_authority) {
    AddExtension(certificate, NID_basic_constraints, "critical,CA:TRUE");
  } else {
    AddExtension(certificate, NID_subject_alt_name, "DNS:localhost,IP:127.0.0.1");
  }
  X509_sign(certificate, signer, EVP_sha256());
  TestCertificate pem{PemOf(certificate), PemOf(subject.key)};
  X509_free(certificate);
  return pem;
}

}  // namespace braid
