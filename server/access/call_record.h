// The record of a call that has ended, for the log and for metrics. It contains neither messages
// nor tokens.
#ifndef BRAID_SERVER_ACCESS_CALL_RECORD_H_
#define BRAID_SERVER_ACCESS_CALL_RECORD_H_

#include <string>

#include "absl/status/status.h"
#include "server/access/authenticator.h"

namespace braid {

struct CallRecord {
  // The "x-request-id" of the client, or a generated one.
  std::string request_id = {};
  // Empty if the caller was not identified.
  std::string principal = {};
  // "/braid.v1.PipelineService/GetJob". For a method without a policy it is any text that a client
  // has sent, as long as a header may be.
  std::string method = {};
  // "ipv4:127.0.0.1:40412".
  std::string peer = {};
  absl::StatusCode code = absl::StatusCode::kOk;
  Refusal refusal = Refusal::kNone;
  double seconds = 0;
};

// An observer of calls. Its functions are called from any thread and must not block.
class CallObserver {
 public:
  virtual ~CallObserver() = default;
  // Called when a call is admitted.
  virtual void OnStart(const std::string& method) = 0;
  // Called when the server itself has a problem, such as an unreadable token file.
  virtual void OnProblem(const std::string& /*what*/) {}
  // Called for an event of the server itself, such as renewed certificates.
  virtual void OnNotice(const std::string& /*what*/) {}
  // Called when something soon needs the attention of the operator, such as an expiring token.
  virtual void OnWarning(const std::string& /*what*/) {}
  // Called when a call has ended, admitted or not. `started`: OnStart was called for it.
  virtual void OnEnd(const CallRecord& record, bool started) = 0;
};

}  // namespace braid

#endif  // BRAID_SERVER_ACCESS_CALL_RECORD_H_
