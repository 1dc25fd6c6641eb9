// A `braid-trainer serve` child, which holds one model in memory for the lifetime of the object.
#ifndef BRAID_CONTROL_SERVING_CHILD_H_
#define BRAID_CONTROL_SERVING_CHILD_H_

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/serving.pb.h"
#include "control/supervision/child_program.h"

namespace braid {

struct ServingChildSpec {
  // A path, or a name that is looked up in PATH.
  std::string trainer;
  // A run or checkpoint directory.
  std::filesystem::path model;
  // The home whose deletions spare the model until the child has ended; empty: none.
  std::filesystem::path home = {};
  // Threads of the child; 0: all cores.
  int num_threads = 0;
  // Advance all texts in one batched step (braidd --generate-together).
  bool together = false;
};

// One thread starts the child, moves data to and from it, and waits for it, so a child that does
// not read blocks no caller. The child is killed when this process ends in any way. Thread-safe
// except for construction and destruction.
class ServingChild {
 public:
  // Called from the child's thread. `on_end` is called last and once: with OK after End(), with
  // UNAVAILABLE when the child had loaded the model or was killed, otherwise with what is wrong
  // with the model.
  struct Callbacks {
    std::function<void(v1::ServingReport)> on_report;
    std::function<void(const absl::Status&)> on_end;
  };

  static absl::StatusOr<std::unique_ptr<ServingChild>> Start(const ServingChildSpec& spec,
                                                             Callbacks callbacks);
  // Ends the child and waits for it. Must not be called from a callback.
  ~ServingChild();

  // Queues a command. Never blocks; dropped when the child has ended. A request that is cancelled
  // before the child has read any of it is removed from the queue, so a child that does not read
  // costs no more memory here than its uncancelled requests.
  void Send(const v1::ServingCommand& command);
  // Returns the size of the commands that the child has not read.
  size_t unsent_bytes() const;

  // Kills the child soon; it has nothing to save. Does not block.
  void End();

 private:
  struct Streams;
  struct Unsent {
    uint64_t id = 0;
    std::string line;
  };
  ServingChild(ServingChildSpec spec, Callbacks callbacks, Pipe wake);

  void Run();
  absl::Status Serve();
  absl::Status Converse(pid_t pid, Streams& streams);
  absl::Status Move(Streams& streams);
  absl::Status Deliver(std::string_view line);
  void Write(Streams& streams);
  bool ForgetUnsent(uint64_t id);
  void Wake();
  bool ending() const;
  bool has_commands() const;

  const ServingChildSpec spec_;
  const Callbacks callbacks_;
  Pipe wake_;            // a byte wakes the thread to send commands or to end
  bool loaded_ = false;  // accessed only by thread_

  mutable std::mutex mutex_;
  std::deque<Unsent> unsent_;
  size_t written_ = 0;  // bytes of the first line that are written
  bool ending_ = false;
  std::thread thread_;  // last: uses the other members
};

}  // namespace braid

#endif  // BRAID_CONTROL_SERVING_CHILD_H_
