// Renewed certificates are used without a restart, and each problem of a connection has its own
// message.
#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "rpc/certificate_expiry.h"
#include "rpc/connection_error.h"
#include "rpc/grpc_credentials.h"
#include "server/access/token_file.h"
#include "server/expiries.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/test_certificates.h"
#include "tests/server/real_braidd.h"

namespace braid {
namespace certificates_test {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

struct BraidOutcome {
  int exit_code;
  std::string errors;
};

class CertificatesTest : public ::testing::Test {
 protected:
  CertificatesTest() : authority_("first authority"), other_("second authority") {
    Put("server", authority_, authority_);
    Put("client", authority_, authority_);
    Put("stranger", other_, authority_);  // signed by an authority that the server does not know
    Put("misled", authority_, other_);    // expects a server of another authority
    Put("renewed", other_, other_);
    PutFile(scratch_ / "mixed.pem", GetFile(scratch_ / "client.pem"));
    PutFile(scratch_ / "mixed.key", GetFile(scratch_ / "server.key"));
    PutFile(scratch_ / "mixed.ca", authority_.certificate());
    flags_ = Tls("server");
    flags_.push_back("--insecure");  // no tokens
  }

  void Put(const std::string& name, const TestAuthority& signer, const TestAuthority& trusted) {
    const TestCertificate made = signer.Issue(name, 30);
    PutFile(scratch_ / (name + ".pem"), made.certificate);
    PutFile(scratch_ / (name + ".key"), made.key);
    PutFile(scratch_ / (name + ".ca"), trusted.certificate());
  }
  TlsFiles Files(const std::string& name) const {
    return {scratch_ / (name + ".pem"), scratch_ / (name + ".key"), scratch_ / (name + ".ca")};
  }
  std::vector<std::string> Tls(const std::string& name) const {
    const TlsFiles files = Files(name);
    return {"--tls-certificate", files.certificate, "--tls-key", files.key, "--tls-ca", files.ca};
  }
  BraidOutcome Braid(const std::string& server, const std::vector<std::string>& flags) const {
    std::vector<std::string> all = {BRAID_BIN_DIR "/braid", "--server", server, "health"};
    all.insert(all.end(), flags.begin(), flags.end());
    TestProgram braid(all);
    const int exit_code = braid.Wait();
    EXPECT_LE(braid.err().size(), 301u) << braid.err();
    for (const char* internals : {"ipv4:", "SSL_ERROR", "UNKNOWN", "last error"}) {
      EXPECT_THAT(braid.err(), Not(HasSubstr(internals)));
    }
    return {exit_code, braid.err()};
  }
  // Copies the files of `name` over those of the server, one by one as a renewal does.
  void Renew(const std::string& name) const {
    for (const char* kind : {".pem", ".ca", ".key"}) {
      PutFile(scratch_ / (std::string("server") + kind), GetFile(scratch_ / (name + kind)));
    }
  }

  ScratchDirectory scratch_;
  TestAuthority authority_, other_;
  std::vector<std::string> flags_;
};

TEST_F(CertificatesTest, EveryProblemOfAConnectionHasItsMessage) {
  RealBraidd server(BRAID_BIN_DIR "/braidd", scratch_ / "braidd", flags_);
  ASSERT_TRUE(server.Start());
  const std::string address = server.address();
  EXPECT_EQ(Braid(address, Tls("client")).exit_code, 0);

  EXPECT_THAT(Braid(address, Tls("mixed")).errors,
              AllOf(HasSubstr("--tls-key"), HasSubstr("does not belong to the certificate")));
  EXPECT_THAT(Braid(address, Tls("misled")).errors,
              HasSubstr("the server's certificate is not signed by the authority of --tls-ca"));
  EXPECT_THAT(Braid(address, Tls("stranger")).errors,
              HasSubstr("the certificate of --tls-certificate; use one that the authority of its"));
  EXPECT_THAT(Braid(address, {}).errors, HasSubstr("is not stopped; if it uses TLS, add --tls-ca"));
  EXPECT_THAT(Braid("no-such-host.invalid:7077", Tls("client")).errors,
              HasSubstr("the host name \"no-such-host.invalid\" does not resolve"));
  EXPECT_THAT(Braid("http://" + address, {}).errors, HasSubstr("leave out \"http://\""));
  EXPECT_EQ(server.Terminate(), 0);
  const BraidOutcome refused = Braid(address, Tls("client"));
  EXPECT_EQ(refused.exit_code, 4);
  EXPECT_THAT(refused.errors, HasSubstr("connection refused; start one: braidd --listen"));
}

TEST_F(CertificatesTest, AServerWithoutTlsOrForAnotherHostIsNamed) {
  RealBraidd plain(BRAID_BIN_DIR "/braidd", scratch_ / "plain", {});
  ASSERT_TRUE(plain.Start());
  EXPECT_THAT(Braid(plain.address(), Tls("client")).errors,
              HasSubstr("the server does not use TLS; leave out"));
  std::vector<std::string> command = {BRAID_BIN_DIR "/braidd", "--listen", "127.0.0.2:0", "--home",
                                      (scratch_ / "second").string()};
  command.insert(command.end(), flags_.begin(), flags_.end());
  TestProgram second(command);
  const std::string port = second.WaitForOutput(" at 127.0.0.2:", ", state in");
  ASSERT_NE(port, "") << second.err();
  EXPECT_THAT(Braid("127.0.0.2:" + port, Tls("client")).errors,
              HasSubstr("the server's certificate is not for \"127.0.0.2\""));
}

TEST_F(CertificatesTest, RenewedFilesAreUsedWithoutARestart) {
  flags_.insert(flags_.end(), {"--log-file", (scratch_ / "log").string()});
  RealBraidd server(BRAID_BIN_DIR "/braidd", scratch_ / "braidd", flags_);
  ASSERT_TRUE(server.Start());
  const auto connects = [&](const std::string& name) {
    return DiagnoseConnection(server.address(), Files(name), 30).ok();
  };
  EXPECT_TRUE(connects("client"));
  Renew("mixed");  // a key of another certificate
  EXPECT_TRUE(WaitUntil([&] {
    return GetFile(scratch_ / "log").find("the earlier ones remain in use") != std::string::npos;
  }));
  EXPECT_TRUE(connects("client")) << "a failed renewal does not end the service";
  Renew("renewed");
  EXPECT_TRUE(WaitUntil([&] { return connects("renewed"); })) << GetFile(scratch_ / "log");
  EXPECT_FALSE(connects("client")) << "the earlier authority is not trusted any more";
  EXPECT_EQ(Braid(server.address(), Tls("renewed")).exit_code, 0);
}

TEST_F(CertificatesTest, ARenewalThatCouldNotBeReadIsTriedAgain) {
  flags_.insert(flags_.end(), {"--log-file", (scratch_ / "log").string()});
  RealBraidd server(BRAID_BIN_DIR "/braidd", scratch_ / "braidd", flags_);
  ASSERT_TRUE(server.Start());
  rlimit before, none;
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, nullptr, &before), 0);
  none = {.rlim_cur = 3, .rlim_max = before.rlim_max};
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &none, nullptr), 0);
  Renew("renewed");
  EXPECT_TRUE(WaitUntil([&] {
    return GetFile(scratch_ / "log").find("the earlier ones remain in use") != std::string::npos;
  }));
  ASSERT_EQ(prlimit(server.pid(), RLIMIT_NOFILE, &before, nullptr), 0);
  EXPECT_TRUE(WaitUntil([&] {
    return DiagnoseConnection(server.address(), Files("renewed"), 30).ok();
  })) << GetFile(scratch_ / "log");
}

TEST_F(CertificatesTest, ExpiriesAreAnnounced) {
  const int64_t now = std::chrono::duration_cast<std::chrono::seconds>(
                          std::chrono::system_clock::now().time_since_epoch())
                          .count();
  PutFile(scratch_ / "soon.pem", authority_.Issue("soon", 3).certificate);
  ASSERT_OK_AND_ASSIGN(const int64_t soon, CertificateExpiry(scratch_ / "soon.pem"));
  EXPECT_NEAR(static_cast<double>(soon - now), 3 * 86400.0, 3600);
  ASSERT_OK(CreateToken(scratch_ / "home", "ann", Role::kViewer, 3600, ""));
  ASSERT_OK(CreateToken(scratch_ / "home", "bob", Role::kViewer, 90 * 86400, ""));
  ASSERT_OK(CreateToken(scratch_ / "home", "eve", Role::kViewer, 0, ""));
  const std::vector<Expiry> expiries =
      ListExpiries(scratch_ / "home", {scratch_ / "soon.pem", scratch_ / "x", {}});
  ASSERT_EQ(expiries.size(), 3u);
  EXPECT_THAT(ExpiryWarning(expiries[0], now), AllOf(HasSubstr("(ann)"), HasSubstr("hours")));
  EXPECT_EQ(ExpiryWarning(expiries[1], now), "");
  EXPECT_THAT(ExpiryWarning(expiries[2], now),
              AllOf(HasSubstr("soon.pem"), HasSubstr("days; renew it")));
  EXPECT_THAT(ExpiryWarning(expiries[2], soon), HasSubstr("has expired"));
  // A certificate that is its own authority.
  EXPECT_EQ(ListExpiries(scratch_ / "home",
                         {scratch_ / "soon.pem", scratch_ / "x", scratch_ / "soon.pem"})
                .size(),
            3u);
}

}  // namespace certificates_test
}  // namespace braid
