// Identifies a process permanently. The kernel reuses process ids, so a process is identified by
// its id, its start time and the boot in which it was started.
//
//   ASSIGN_OR_RETURN(ProcessIdentity trainer, IdentifyProcess(pid));
//   ... much later, perhaps in another program ...
//   if (IsAlive(trainer)) kill(trainer.pid, SIGTERM);
#ifndef BRAID_RUNS_PROCESS_IDENTITY_H_
#define BRAID_RUNS_PROCESS_IDENTITY_H_

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct ProcessIdentity {
  int64_t pid = 0;
  // Field 22 of /proc/PID/stat: clock ticks from boot to start.
  uint64_t start_time = 0;
  // /proc/sys/kernel/random/boot_id; differs between machines and boots.
  std::string boot_id;
  // /proc/self/ns/pid; differs between containers. An id has no meaning outside its container.
  std::string pid_namespace;
  // /etc/machine-id and host name. Unchanged by a reboot, and equal in containers that share both.
  // Empty in records of older programs.
  std::string machine = {};
};

// The content of a run directory's process.json.
struct ProcessRecord {
  ProcessIdentity identity;
  // Distinguishes the launches of a run.
  std::string nonce;
  // Unix seconds.
  double launched_at = 0;
};

// Returns the host name of this machine; "unknown" when it is not available.
std::string HostName();

// Returns the identity of a running process. NotFound when there is none with this id.
absl::StatusOr<ProcessIdentity> IdentifyProcess(int64_t pid);

// Returns whether a process belongs to this machine, container and boot. The state of any other
// process is not visible from here.
bool IsLocal(const ProcessIdentity& identity);

// Returns true for local processes and for those of another boot or container of this machine.
// Whether the latter run is not visible from here, but their files are on this machine.
bool IsOfThisMachine(const ProcessIdentity& identity);

// Returns true while this very process runs and is local. A zombie counts as dead: its parent may
// never collect its exit status.
bool IsAlive(const ProcessIdentity& identity);

// Returns whether the process with this id, as seen from here, is in the container of this process.
bool IsOfThisContainer(int64_t pid);

// Returns the argument vector of a process; empty when it has ended or is a kernel thread.
std::vector<std::string> ProcessArguments(int64_t pid);

// Returns the ids of all processes of this machine.
std::vector<int64_t> ProcessIds();

// Returns for each thread of a process, by its id, the seconds since its start in which it was
// ready to run but had no processor. Empty when the process has ended, or the kernel does not count
// them.
std::map<int64_t, double> RunQueueSeconds(int64_t pid);

// Writes process.json atomically and durably.
absl::Status WriteProcessRecord(const std::filesystem::path& path, const ProcessRecord& record);
// Reads process.json. NotFound without the file, DataLoss when it does not hold a record.
absl::StatusOr<ProcessRecord> ReadProcessRecord(const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_RUNS_PROCESS_IDENTITY_H_
