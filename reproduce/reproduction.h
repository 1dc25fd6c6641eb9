// `braid reproduce`: the whole experiment of docs/reproduction.md on one corpus, from text to
// verdicts. Every step goes through the services and is found again when the command is repeated.
#ifndef BRAID_REPRODUCE_REPRODUCTION_H_
#define BRAID_REPRODUCE_REPRODUCTION_H_

#include <filesystem>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/session.h"
#include "client/training_lanes.h"
#include "reproduce/reproduction_plan.h"

namespace braid {

struct ReproductionOptions {
  ReproductionPlan plan;
  // Without paths: this machine's own text.
  CorpusSource source;
  // Runs at a time.
  int lanes = 1;
  // Of each host that the plan's runs name; empty: they name none.
  HostLanes lanes_of_hosts = {};
  // Of reproduction.html and reproduction.json.
  std::filesystem::path output_dir;
  // For the record: how the experiment was asked for, and by which program.
  std::string command;
  std::string version;
};

// Writes the page and the JSON, and tells the verdicts on standard output. An experiment in which
// runs failed is told too, and ends with an error.
absl::Status RunReproduction(Session& session, const ReproductionOptions& options);

// Checks the corpus and tells what would be run.
absl::Status PlanReproduction(Session& session, const ReproductionOptions& options);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_H_
