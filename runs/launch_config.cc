#include "runs/launch_config.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/status_macros.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr size_t kShownBytes = 80;
constexpr size_t kMaxPathBytes = 1024;
// Far above practical use, yet sums of such values cannot overflow.
constexpr int32_t kLaunchConfigMaxRanks = 1 << 20;
constexpr int32_t kMaxHosts = 1 << 16;
// Slurm warns the supervisor two minutes before the limit, with a resolution of one minute.
constexpr int32_t kMinLimitMinutes = 5;
constexpr int32_t kMaxLimitMinutes = 366 * 24 * 60;

absl::Status Bad(std::string_view field, std::string_view got, std::string_view expected) {
  return absl::InvalidArgumentError(absl::StrCat("launch.", std::string(field), ": got ",
                                                 std::string(got), ", expected ",
                                                 std::string(expected)));
}

// Returns text that is safe to print: a client must not be able to write control characters to a
// terminal or a log.
std::string Quoted(std::string_view text) {
  const std::string shown(text.substr(0, kShownBytes));
  return absl::StrCat("\"", absl::CHexEscape(shown), "\"",
                      text.size() > kShownBytes ? " (cut)" : "");
}

// The characters allowed in one kind of name: at its two ends and in between.
struct NameRule {
  std::string_view inner;  // besides letters and digits
  bool lower_case;         // letters are a-z only
  size_t max_bytes;
  std::string_view expected;
};

constexpr NameRule kHost{".-", false, 253,
                         "a host name or an IPv4 address: letters, digits, \".\" and \"-\""};
constexpr NameRule kInterface{
    "._-", false, 15, "a network interface: at most 15 letters, digits, \".\", \"_\", \"-\""};
constexpr NameRule kSlurmName{"._-", false, 64,
                              "at most 64 letters, digits, \".\", \"_\" and \"-\""};
constexpr NameRule kLabel{"-", true, 63, "at most 63 of a-z, 0-9 and \"-\""};
constexpr NameRule kSubdomain{".-", true, 253, "at most 253 of a-z, 0-9, \".\" and \"-\""};
constexpr NameRule kImage{"._/:@-", false, 255,
                          "a container image: letters, digits and \"._/:@-\""};

bool IsLetterOrDigit(char c, bool lower_case) {
  const auto byte = static_cast<unsigned char>(c);
  return absl::ascii_isalnum(byte) && !(lower_case && absl::ascii_isupper(byte));
}

// Both ends must be letters or digits: a leading dash would be read as an option.
bool Follows(const NameRule& rule, std::string_view text) {
  if (text.empty() || text.size() > rule.max_bytes) return false;
  if (!IsLetterOrDigit(text.front(), rule.lower_case)) return false;
  if (!IsLetterOrDigit(text.back(), rule.lower_case)) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return IsLetterOrDigit(c, rule.lower_case) || rule.inner.find(c) != std::string_view::npos;
  });
}

absl::Status CheckName(std::string_view field, std::string_view text, const NameRule& rule) {
  return Follows(rule, text) ? absl::OkStatus() : Bad(field, Quoted(text), rule.expected);
}

absl::Status CheckOptional(std::string_view field, std::string_view text, const NameRule& rule) {
  return text.empty() ? absl::OkStatus() : CheckName(field, text, rule);
}

absl::Status CheckRange(std::string_view field, int64_t got, int64_t minimum, int64_t maximum) {
  if (got >= minimum && got <= maximum) return absl::OkStatus();
  return Bad(field, absl::StrCat(got), absl::StrCat(minimum, " to ", maximum));
}

// Returns whether the text is a quantity such as "8", "0.5", "500m" or "32Gi".
bool IsQuantity(std::string_view text) {
  static const auto* const suffixes = new std::set<std::string_view>{
      "", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi", "Ti", "Pi"};
  const size_t end = std::min(text.find_first_not_of("0123456789."), text.size());
  const std::string_view number = text.substr(0, end);
  return !number.empty() && number.size() <= 16 && number.front() != '.' && number.back() != '.' &&
         std::count(number.begin(), number.end(), '.') <= 1 && suffixes->contains(text.substr(end));
}

absl::Status CheckQuantity(std::string_view field, std::string_view text) {
  if (text.empty() || IsQuantity(text)) return absl::OkStatus();
  return Bad(field, Quoted(text), "a Kubernetes quantity such as 8, 500m or 32Gi");
}

absl::Status CheckHosts(v1::LaunchConfig* launch) {
  std::set<std::string> seen;
  for (int i = 0; i < launch->hosts_size(); ++i) {
    v1::HostSlots* const host = launch->mutable_hosts(i);
    const std::string field = absl::StrCat("hosts[", i, "]");
    RETURN_IF_ERROR(CheckName(field + ".host", host->host(), kHost));
    FillStatedDefaults(host);
    RETURN_IF_ERROR(CheckRange(field + ".slots", host->slots(), 1, kLaunchConfigMaxRanks));
    if (!seen.insert(host->host()).second) {
      return Bad(field + ".host", Quoted(host->host()), "each host once, with all its slots");
    }
  }
  return CheckRange("hosts (their number)", launch->hosts_size(), 0, kMaxHosts);
}

absl::Status CheckSlurm(const v1::SlurmConfig& slurm, int32_t world_size) {
  RETURN_IF_ERROR(CheckOptional("slurm.partition", slurm.partition(), kSlurmName));
  RETURN_IF_ERROR(CheckOptional("slurm.account", slurm.account(), kSlurmName));
  RETURN_IF_ERROR(CheckOptional("slurm.qos", slurm.qos(), kSlurmName));
  RETURN_IF_ERROR(CheckRange("slurm.gpus_per_node", slurm.gpus_per_node(), 0, 64));
  if (slurm.has_time_limit_minutes()) {
    RETURN_IF_ERROR(CheckRange("slurm.time_limit_minutes", slurm.time_limit_minutes(),
                               kMinLimitMinutes, kMaxLimitMinutes));
  }
  if (!slurm.has_nodes()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckRange("slurm.nodes", slurm.nodes(), 1, kMaxHosts));
  if (slurm.nodes() <= world_size) return absl::OkStatus();
  return Bad("slurm.nodes", absl::StrCat(slurm.nodes()),
             absl::StrCat("at most one for each rank (world_size: ", world_size, ")"));
}

absl::Status ResolveKubernetes(int32_t world_size, v1::KubernetesConfig* kubernetes) {
  FillStatedDefaults(kubernetes);
  RETURN_IF_ERROR(CheckName("kubernetes.namespace", kubernetes->namespace_(), kLabel));
  RETURN_IF_ERROR(CheckName("kubernetes.image", kubernetes->image(), kImage));
  RETURN_IF_ERROR(CheckName("kubernetes.volume_claim", kubernetes->volume_claim(), kSubdomain));
  RETURN_IF_ERROR(CheckPlainPath("launch.kubernetes.mount_path", kubernetes->mount_path()));
  RETURN_IF_ERROR(CheckQuantity("kubernetes.cpu", kubernetes->cpu()));
  RETURN_IF_ERROR(CheckQuantity("kubernetes.memory", kubernetes->memory()));
  RETURN_IF_ERROR(CheckRange("kubernetes.gpus", kubernetes->gpus(), 0, 64));
  if (!kubernetes->has_workers()) kubernetes->set_workers(world_size);
  RETURN_IF_ERROR(CheckRange("kubernetes.workers", kubernetes->workers(), 1, kMaxHosts));
  if (world_size % kubernetes->workers() == 0) return absl::OkStatus();
  return Bad("kubernetes.workers", absl::StrCat(kubernetes->workers()),
             absl::StrCat("a divisor of world_size (", world_size,
                          "), since all workers have the same number of ranks"));
}

// Rejects sections for other backends: they are mistakes that would otherwise be ignored silently.
absl::Status CheckSections(const v1::LaunchConfig& launch) {
  const v1::LaunchBackend backend = launch.backend();
  const std::string only = absl::StrCat("nothing with backend ", v1::LaunchBackend_Name(backend));
  if (!launch.hosts().empty() && backend != v1::HOSTFILE) {
    return Bad("hosts", absl::StrCat(launch.hosts_size(), " hosts"), only);
  }
  if (launch.has_slurm() && backend != v1::SLURM) return Bad("slurm", "settings", only);
  if (launch.has_kubernetes() && backend != v1::KUBERNETES) {
    return Bad("kubernetes", "settings", only);
  }
  if (backend == v1::HOSTFILE && launch.hosts().empty()) {
    return Bad("hosts", "none", "at least one with backend HOSTFILE");
  }
  return absl::OkStatus();
}

int64_t DefaultWorldSize(const v1::LaunchConfig& launch) {
  switch (launch.backend()) {
    case v1::HOSTFILE:
      return TotalSlots(launch);
    case v1::SLURM:
      return std::max(1, launch.slurm().nodes());
    case v1::KUBERNETES:
      return std::max(1, launch.kubernetes().workers());
    default:
      return 1;
  }
}

absl::Status CheckWorldSize(const v1::RunSpec& spec) {
  if (spec.world_size() < 1 || spec.world_size() > kLaunchConfigMaxRanks) {
    return absl::InvalidArgumentError(absl::StrCat("world_size: got ", spec.world_size(),
                                                   ", expected 1 to ", kLaunchConfigMaxRanks));
  }
  const int64_t slots = TotalSlots(spec.launch());
  if (spec.launch().backend() != v1::HOSTFILE || spec.world_size() <= slots) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("world_size: got ", spec.world_size(),
                                                 ", expected at most the slots of launch.hosts, ",
                                                 slots));
}

absl::Status CheckBackendConfig(v1::RunSpec* spec) {
  v1::LaunchConfig* const launch = spec->mutable_launch();
  if (launch->backend() == v1::SLURM) return CheckSlurm(launch->slurm(), spec->world_size());
  if (launch->backend() != v1::KUBERNETES) return absl::OkStatus();
  return ResolveKubernetes(spec->world_size(), launch->mutable_kubernetes());
}

}  // namespace

absl::Status ResolveLaunch(v1::RunSpec* spec) {
  v1::LaunchConfig* const launch = spec->mutable_launch();
  if (launch->backend() == v1::LAUNCH_BACKEND_UNSPECIFIED) {
    launch->set_backend(launch->hosts().empty() ? v1::LOCAL : v1::HOSTFILE);
  }
  if (!v1::LaunchBackend_IsValid(launch->backend())) {
    return Bad("backend", absl::StrCat(static_cast<int>(launch->backend())),
               "LOCAL, HOSTFILE, SLURM or KUBERNETES");
  }
  RETURN_IF_ERROR(CheckSections(*launch));
  RETURN_IF_ERROR(CheckOptional("network_interface", launch->network_interface(), kInterface));
  RETURN_IF_ERROR(CheckHosts(launch));
  if (!spec->has_world_size()) {
    spec->set_world_size(
        static_cast<int32_t>(std::min<int64_t>(DefaultWorldSize(*launch), kLaunchConfigMaxRanks)));
  }
  RETURN_IF_ERROR(CheckWorldSize(*spec));
  return CheckBackendConfig(spec);
}

int32_t RanksPerMachine(const v1::RunSpec& resolved) {
  const v1::LaunchConfig& launch = resolved.launch();
  const auto shared_by = [&](int32_t machines) {
    return (resolved.world_size() + std::max(1, machines) - 1) / std::max(1, machines);
  };
  if (launch.backend() == v1::SLURM) return shared_by(launch.slurm().nodes());
  if (launch.backend() == v1::KUBERNETES) return shared_by(launch.kubernetes().workers());
  if (launch.backend() != v1::HOSTFILE) return resolved.world_size();
  int32_t most = 1;
  for (const v1::HostSlots& host : launch.hosts()) most = std::max(most, host.slots());
  return std::min(most, resolved.world_size());
}

int64_t TotalSlots(const v1::LaunchConfig& launch) {
  int64_t slots = 0;
  for (const v1::HostSlots& host : launch.hosts()) slots += host.slots();
  return slots;
}

bool IsPlainPath(std::string_view path) {
  if (path.size() < 2 || path.size() > kMaxPathBytes || path.front() != '/') return false;
  const auto is_plain = [](absl::string_view part) {
    if (part.empty() || part == "." || part == "..") return false;
    return std::all_of(part.begin(), part.end(), [](char c) {
      return IsLetterOrDigit(c, false) || c == '.' || c == '_' || c == '-' || c == '+';
    });
  };
  const std::vector<std::string> parts =
      absl::StrSplit(absl::string_view(path.data() + 1, path.size() - 1), '/');
  return std::all_of(parts.begin(), parts.end(), is_plain);
}

absl::Status CheckPlainPath(std::string_view what, std::string_view path) {
  if (IsPlainPath(path)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      std::string(what), ": got ", Quoted(path),
      ", expected an absolute path of letters, digits, \".\", \"_\", \"-\" and \"+\""));
}

}  // namespace braid
