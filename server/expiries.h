// Expiry dates of the tokens and certificates that a server uses.
#ifndef BRAID_SERVER_EXPIRIES_H_
#define BRAID_SERVER_EXPIRIES_H_

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "rpc/tls_files.h"

namespace braid {

// Time before an expiry at which warnings begin.
inline constexpr int64_t kExpiryNoticeSeconds = int64_t{14} * 24 * 3600;

struct Expiry {
  std::string kind;  // "token" or "certificate"
  // The id of a token and its principal, "6f1c20aa (ann)", or the path of a certificate file.
  std::string name;
  int64_t at = 0;  // Unix seconds
};

// Returns the expiries of the tokens in `home` and of the certificates in `tls`. Tokens that do not
// expire, and files that cannot be read, which have errors of their own, are left out.
std::vector<Expiry> ListExpiries(const std::filesystem::path& home, const TlsFiles& tls);

// Returns "certificate /etc/braid/server.pem expires in 3 days; ..."; "" until the notice begins,
// and as long again after the expiry.
std::string ExpiryWarning(const Expiry& expiry, int64_t now);

// Passes the warnings to `warn` at its construction and then once per `interval`, from a thread.
class ExpiryReminder {
 public:
  ExpiryReminder(std::filesystem::path home, TlsFiles tls,
                 std::function<void(const std::string&)> warn,
                 std::chrono::seconds interval = std::chrono::hours(12));
  ~ExpiryReminder();
  ExpiryReminder(const ExpiryReminder&) = delete;
  ExpiryReminder& operator=(const ExpiryReminder&) = delete;

 private:
  std::mutex mutex_;
  std::condition_variable stopped_;
  bool stop_ = false;  // guarded by mutex_
  std::thread thread_;
};

}  // namespace braid

#endif  // BRAID_SERVER_EXPIRIES_H_
