// The quickstart: gathers a corpus, submits it in two orders, trains four runs, evaluates and
// samples them and writes a report. Every step is a call to the services with a repeatable
// idempotency key, so that a repeated command continues where it stopped.
#ifndef BRAID_CLI_QUICKSTART_H_
#define BRAID_CLI_QUICKSTART_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/session.h"

namespace braid {

struct QuickstartOptions {
  std::filesystem::path workdir;
  // Files and directories of text; empty: the text of this machine.
  std::vector<std::string> paths;
  int64_t num_steps = 480;
};

// Runs the quickstart; writes report.html and summary.json into the work directory.
absl::Status RunQuickstart(Session& session, const QuickstartOptions& options);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_H_
