// A `braid-trainer serve` child: one model in memory, for as long as this object.
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
  // Of the child; 0: all cores.
  int num_threads = 0;
  // One step for all texts (braidd --generate-together).
  bool together = false;
};

// One thread starts the child, moves what goes to and comes from it, and waits for it: a child
// that does not read holds up nobody. The child dies with this process, however that ends.
// Thread-safe, but for construction and destruction.
class ServingChild {
 public:
  // Both are called from the child's thread. `on_end` comes last, once: OK after End(), else why
  // the child ended. UNAVAILABLE when it had the model in memory or was killed; else what was wrong
  // with the model.
  struct Callbacks {
    std::function<void(v1::ServingReport)> on_report;
    std::function<void(const absl::Status&)> on_end;
  };

  static absl::StatusOr<std::unique_ptr<ServingChild>> Start(const ServingChildSpec& spec,
                                                             Callbacks callbacks);
  // Ends the child and waits for it. Not from a callback.
  ~ServingChild();

  // Never waits. Dropped when the child has ended. A request that is given up before the child has
  // taken any of it is forgotten, so a child that does not read holds no more memory here than the
  // requests that still wait for it.
  void Send(const v1::ServingCommand& command);
  // Of commands that the child has not taken.
  size_t unsent_bytes() const;

  // Kills the child, soon; it has nothing to save.
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
  Pipe wake_;            // a byte here: there is something to send, or to end
  bool loaded_ = false;  // the thread's

  mutable std::mutex mutex_;
  std::deque<Unsent> unsent_;
  size_t written_ = 0;  // of the first's line
  bool ending_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace braid

#endif  // BRAID_CONTROL_SERVING_CHILD_H_
