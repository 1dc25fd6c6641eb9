// What is known of a call once it has ended: for the log and for metrics. Never a message of
// it, nor a token.
#ifndef BRAID_SERVER_ACCESS_CALL_RECORD_H_
#define BRAID_SERVER_ACCESS_CALL_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "server/access/authenticator.h"

namespace braid {

struct CallRecord {
  // The client's "x-request-id", or one made here.
  std::string request_id = {};
  // "" of a caller that was not identified.
  std::string principal = {};
  // "/braid.v1.PipelineService/GetJob"; any text of at most a header's size when it has no policy.
  std::string method = {};
  // "ipv4:127.0.0.1:40412".
  std::string peer = {};
  absl::StatusCode code = absl::StatusCode::kOk;
  Refusal refusal = Refusal::kNone;
  double seconds = 0;
};

// Called from any thread; must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // A call that was let in.
  virtual void OnStart(const std::string& method) = 0;
  // Something is wrong with the server itself.
  virtual void OnProblem(const std::string& /*what*/) {}
  // Any call. `started`: OnStart was called for it.
  virtual void OnEnd(const CallRecord& record, bool started) = 0;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_RECORD_H_
