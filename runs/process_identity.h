// Which process, for good: a process id alone is reused by the kernel, so a
// process is named by its id, its start time and the boot it was started in.
//
//   ASSIGN_OR_RETURN(ProcessIdentity trainer, IdentifyProcess(pid));
//   ... much later, perhaps in another program ...
//   if (IsAlive(trainer)) kill(trainer.pid, SIGTERM);
#ifndef BRAID_RUNS_PROCESS_IDENTITY_H_
#define BRAID_RUNS_PROCESS_IDENTITY_H_

#include <cstdint>
#include <filesystem>
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
  // /proc/self/ns/pid; differs between containers, whose ids mean nothing outside.
  std::string pid_namespace;
  // /etc/machine-id and host name; the same after the machine was restarted, and between
  // containers that share both. Empty in records of older programs.
  std::string machine = {};
};

// process.json of a run directory.
struct ProcessRecord {
  ProcessIdentity identity;
  // Tells one launch of a run from the next.
  std::string nonce;
  // Unix seconds.
  double launched_at = 0;
};

// What this machine calls itself; "unknown" when it does not say.
std::string HostName();

// NotFound when there is no such process.
absl::StatusOr<ProcessIdentity> IdentifyProcess(int64_t pid);

// False for a process of another machine, container or boot: nothing can be said
// about it from here.
bool IsLocal(const ProcessIdentity& identity);

// Local, or of another boot or container of this machine: whether such a process runs cannot be
// seen from here, but what it leaves behind is this machine's.
bool IsOfThisMachine(const ProcessIdentity& identity);

// True while the very process runs, and is local. A zombie is dead: its parent
// may never ask for its exit status.
bool IsAlive(const ProcessIdentity& identity);

// Argument vector of a process; empty when it is gone or a kernel thread.
std::vector<std::string> ProcessArguments(int64_t pid);

// Ids of all processes of this machine.
std::vector<int64_t> ProcessIds();

// process.json, written atomically and durably.
absl::Status WriteProcessRecord(const std::filesystem::path& path, const ProcessRecord& record);
// NotFound without the file, DataLoss when it does not hold a record.
absl::StatusOr<ProcessRecord> ReadProcessRecord(const std::filesystem::path& path);

}  // namespace braid

#endif  // BRAID_RUNS_PROCESS_IDENTITY_H_
