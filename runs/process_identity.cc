#include "runs/process_identity.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"

namespace braid {
namespace {

struct ProcessStat {
  char state = 0;
  uint64_t start_time = 0;
};

// Returns the content of a file in /proc, or the part that could be read. Reads to the end, because
// these files report size 0, and without a stream, which throws when the process ends meanwhile.
std::string ReadProcFile(const std::string& path) {
  std::string content;
  const int descriptor = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor < 0) return content;
  char bytes[4096];
  for (ssize_t n = 0; (n = read(descriptor, bytes, sizeof(bytes))) > 0;) {
    content.append(bytes, static_cast<size_t>(n));
  }
  close(descriptor);
  return content;
}

std::optional<ProcessStat> ReadStat(int64_t pid) {
  const std::string text = ReadProcFile(absl::StrCat("/proc/", pid, "/stat"));
  // The second field is the program's name in parentheses, which may itself contain spaces and
  // parentheses: fields are counted from the last one.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  std::istringstream fields(text.substr(name_end + 1));
  ProcessStat stat;
  fields >> stat.state;
  std::string skipped;
  for (int field = 4; field < 22; ++field) fields >> skipped;
  fields >> stat.start_time;
  if (!fields) return std::nullopt;
  return stat;
}

// Returns the entries of a directory of /proc whose names are ids.
std::vector<int64_t> IdsIn(const std::string& directory) {
  std::vector<int64_t> ids;
  std::error_code error;
  for (std::filesystem::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    int64_t id = 0;
    const auto [last, parsed] = std::from_chars(name.data(), name.data() + name.size(), id);
    if (parsed == std::errc() && last == name.data() + name.size()) ids.push_back(id);
  }
  return ids;
}

std::string ReadId(const std::string& path) {
  std::string id = ReadProcFile(path);
  while (!id.empty() && id.back() == '\n') id.pop_back();
  return id;
}

std::string BootId() { return ReadId("/proc/sys/kernel/random/boot_id"); }

// Copied images of machines and containers share an id; the host name distinguishes them.
std::string Machine() { return absl::StrCat(ReadId("/etc/machine-id"), "/", HostName()); }

// Returns the namespace of a process, an id or "self"; empty when it cannot be read.
std::string PidNamespace(const std::string& process = "self") {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/" + process + "/ns/pid", error).string();
}

}  // namespace

bool IsOfThisContainer(int64_t pid) {
  const std::string theirs = PidNamespace(absl::StrCat(pid));
  return !theirs.empty() && theirs == PidNamespace();
}

std::string HostName() {
  char name[256] = {};
  return gethostname(name, sizeof(name) - 1) == 0 ? name : "unknown";
}

absl::StatusOr<ProcessIdentity> IdentifyProcess(int64_t pid) {
  const std::optional<ProcessStat> stat = ReadStat(pid);
  if (!stat) return absl::NotFoundError(absl::StrCat("no process with id ", pid));
  return ProcessIdentity{.pid = pid,
                         .start_time = stat->start_time,
                         .boot_id = BootId(),
                         .pid_namespace = PidNamespace(),
                         .machine = Machine()};
}

bool IsLocal(const ProcessIdentity& identity) {
  return identity.boot_id == BootId() && identity.pid_namespace == PidNamespace();
}

bool IsOfThisMachine(const ProcessIdentity& identity) {
  return IsLocal(identity) || (!identity.machine.empty() && identity.machine == Machine());
}

bool IsAlive(const ProcessIdentity& identity) {
  if (identity.pid <= 0 || !IsLocal(identity)) return false;
  const std::optional<ProcessStat> stat = ReadStat(identity.pid);
  if (!stat || stat->start_time != identity.start_time) return false;
  return stat->state != 'Z' && stat->state != 'X';
}

std::vector<std::string> ProcessArguments(int64_t pid) {
  std::istringstream in(ReadProcFile(absl::StrCat("/proc/", pid, "/cmdline")));
  std::vector<std::string> arguments;
  for (std::string argument; std::getline(in, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

std::vector<int64_t> ProcessIds() { return IdsIn("/proc"); }

std::map<int64_t, double> RunQueueSeconds(int64_t pid) {
  const std::string threads = absl::StrCat("/proc/", pid, "/task");
  std::map<int64_t, double> seconds;
  for (const int64_t thread : IdsIn(threads)) {
    // Nanoseconds on a processor, nanoseconds without one, and the number of times on one.
    std::istringstream fields(ReadProcFile(absl::StrCat(threads, "/", thread, "/schedstat")));
    int64_t ran = 0, waited = 0;
    if (fields >> ran >> waited) seconds[thread] = 1e-9 * static_cast<double>(waited);
  }
  return seconds;
}

absl::Status WriteProcessRecord(const std::filesystem::path& path, const ProcessRecord& record) {
  const nlohmann::json json = {
      {"pid", record.identity.pid},         {"start_time", record.identity.start_time},
      {"boot_id", record.identity.boot_id}, {"pid_namespace", record.identity.pid_namespace},
      {"machine", record.identity.machine}, {"nonce", record.nonce},
      {"launched_at", record.launched_at}};
  return WriteFileAtomically(path, SealJson(json));
}

absl::StatusOr<ProcessRecord> ReadProcessRecord(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  ASSIGN_OR_RETURN(const nlohmann::json json, OpenSealedJson(text, path));
  try {
    return ProcessRecord{.identity = {.pid = json.at("pid").get<int64_t>(),
                                      .start_time = json.at("start_time").get<uint64_t>(),
                                      .boot_id = json.at("boot_id").get<std::string>(),
                                      .pid_namespace = json.at("pid_namespace").get<std::string>(),
                                      .machine = json.value("machine", "")},
                         .nonce = json.at("nonce").get<std::string>(),
                         .launched_at = json.at("launched_at").get<double>()};
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(
        absl::StrCat(path.string(), ": not a process record: ", error.what()));
  }
}

}  // namespace braid
