// From nothing to a compared pair of models: gathers a corpus, submits it in two
// orders, trains four runs, evaluates, samples, reports. Every step goes through
// the services and is found again when the command is repeated.
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
  // Corpus to use instead of this machine's own text.
  std::vector<std::string> paths;
  int64_t num_steps = 480;
};

// Writes report.html and summary.json into the work directory.
absl::Status RunQuickstart(Session& session, const QuickstartOptions& options);

}  // namespace braid

#endif  // BRAID_CLI_QUICKSTART_H_
