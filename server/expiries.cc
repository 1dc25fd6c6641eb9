#include "server/expiries.h"

#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rpc/certificate_expiry.h"
#include "server/access/token_file.h"

namespace braid {
namespace {

void Remind(const std::filesystem::path& home, const TlsFiles& tls,
            const std::function<void(const std::string&)>& warn) {
  for (const Expiry& expiry : ListExpiries(home, tls)) {
    const std::string warning = ExpiryWarning(expiry, std::time(nullptr));
    if (!warning.empty()) warn(warning);
  }
}

}  // namespace

std::vector<Expiry> ListExpiries(const std::filesystem::path& home, const TlsFiles& tls) {
  std::vector<Expiry> expiries;
  if (const auto entries = ReadTokens(home); entries.ok()) {
    for (const AccessEntry& entry : *entries) {
      if (entry.expires_at == 0) continue;
      expiries.push_back(
          {"token", absl::StrCat(entry.id, " (", entry.name, ")"), entry.expires_at});
    }
  }
  std::vector<std::filesystem::path> files = {tls.certificate};
  // A certificate that is its own authority is listed once: no two series of /metrics may have the
  // same labels.
  if (tls.ca != tls.certificate) files.push_back(tls.ca);
  for (const std::filesystem::path& file : files) {
    if (file.empty()) continue;
    if (const auto at = CertificateExpiry(file); at.ok()) {
      expiries.push_back({"certificate", file.string(), *at});
    }
  }
  return expiries;
}

std::string ExpiryWarning(const Expiry& expiry, int64_t now) {
  const int64_t left = expiry.at - now;
  // An entry that expired long ago is not in use.
  if (left > kExpiryNoticeSeconds || left < -kExpiryNoticeSeconds) return "";
  const std::string remedy = expiry.kind == "token"
                                 ? "create another with 'braid token create'"
                                 : "renew it; braidd reads the files again by itself";
  const std::string when = left <= 0          ? "has expired"
                           : left < 48 * 3600 ? absl::StrCat("expires in ", left / 3600, " hours")
                                              : absl::StrCat("expires in ", left / 86400, " days");
  return absl::StrCat(expiry.kind, " ", expiry.name, " ", when, "; ", remedy);
}

ExpiryReminder::ExpiryReminder(std::filesystem::path home, TlsFiles tls,
                               std::function<void(const std::string&)> warn,
                               std::chrono::seconds interval) {
  Remind(home, tls, warn);
  thread_ = std::thread(
      [this, home = std::move(home), tls = std::move(tls), warn = std::move(warn), interval] {
        std::unique_lock lock(mutex_);
        while (!stopped_.wait_for(lock, interval, [this] { return stop_; }))
          Remind(home, tls, warn);
      });
}

ExpiryReminder::~ExpiryReminder() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  stopped_.notify_all();
  thread_.join();
}

}  // namespace braid
