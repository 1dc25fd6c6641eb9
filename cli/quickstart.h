// The quickstart: gathers a corpus, submits it in two orders, trains four runs, evaluates and
// samples them and writes a report. Every step is a call to the services with a repeatable
// idempotency key, so that a repeated command continues where it stopped.
#ifndef BRAID_CLI_QUICKSTART_H_
#define BRAID_CLI_QUICKSTART_H_

#include <filesystem>

#include "absl/status/status.h"
#include "cli/quickstart_summary.h"
#include "client/session.h"

namespace braid {

struct QuickstartOptions : QuickstartSettings {
  std::filesystem::path workdir;
};

// Runs the quickstart; writes report.html and summary.json into the work directory. InvalidArgument
// when that has the results of other settings; Cancelled on Ctrl-C, with how to continue.
absl::Status RunQuickstart(Session& session, const QuickstartOptions& options);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_H_
