// What the commands "analyze ..." share: the call with its progress, the page and the output.
#ifndef BRAID_CLI_ANALYSIS_CALL_H_
#define BRAID_CLI_ANALYSIS_CALL_H_

#include <unistd.h>

#include <functional>
#include <iostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/staged_output.h"
#include "base/status_macros.h"
#include "cli/command.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {

template <class Request, class Event>
using AnalysisMethod = absl::StatusOr<Event> (AnalysisClient::*)(
    const Request&, const std::function<void(const Event&)>&);

// Calls `method` with a progress line for each event, named by `name`; writes the page to `output`
// unless that is empty; prints the result as JSON if the session asks for it, else with `print`.
// A path that cannot be written is an error before the call, which may take hours.
template <class Request, class Event, class Print>
absl::Status RunAnalysis(Session& session, AnalysisMethod<Request, Event> method,
                         const Request& request,
                         const std::function<std::string(const Event&)>& name, const char* unit,
                         const std::string& output, const Print& print) {
  if (!output.empty()) RETURN_IF_ERROR(UserFile::Create(output).status());
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  absl::StatusOr<Event> answer;
  {
    ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
    answer = (client.*method)(request, [&](const Event& event) {
      if (!event.has_result()) board.Update(name(event), ProgressOf(event, unit));
    });
  }
  if (Interrupted()) return absl::CancelledError("interrupted before the analysis was complete");
  RETURN_IF_ERROR(answer.status());
  SourceWarning(std::cerr).Show(answer->result().source());
  if (!output.empty()) {
    RETURN_IF_ERROR(WriteUserFile(output, answer->html()));
    std::cerr << "wrote " << output << std::endl;
  }
  if (session.json) {
    std::cout << ToPrettyJson(answer->result()) << std::endl;
  } else {
    print(answer->result());
  }
  return absl::OkStatus();
}

}  // namespace braid

#endif  // BRAID_CLI_ANALYSIS_CALL_H_
