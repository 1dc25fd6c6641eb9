// `braid reproduce`: the experiment of docs/reproduction/protocol.md on one corpus, from text to
// verdicts. Every step goes through the services, and a repeated command reuses completed steps.
#ifndef BRAID_REPRODUCE_REPRODUCTION_H_
#define BRAID_REPRODUCE_REPRODUCTION_H_

#include <filesystem>
#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "client/session.h"
#include "client/training_slots.h"
#include "reproduce/reproduction_plan.h"
#include "reproduce/tuned_runs.h"

namespace braid {

struct ReproductionOptions {
  ReproductionPlan plan;
  // Without paths, text of this machine is used.
  CorpusSource source;
  // Directory of the task files, and how training examples of a task are prepared, for plans with
  // fine-tuning runs.
  std::string tasks_dir = {};
  PrepareTask prepare_task = nullptr;
  // Number of concurrent runs.
  int slots = 1;
  // Number of concurrent runs for each host in the plan; empty if the runs have no hosts.
  SlotsByHost slots_of_hosts = {};
  // Directory for reproduction.html and reproduction.json.
  std::filesystem::path output_dir;
  // The command line and the version of the program, for the record.
  std::string command;
  std::string version;
};

// Runs the experiment, writes the page and the JSON, and prints the verdicts on standard output. If
// runs failed, it does the same with the results of the others and returns an error.
absl::Status RunReproduction(Session& session, const ReproductionOptions& options);

// Checks the corpus and prints the plan.
absl::Status PlanReproduction(Session& session, const ReproductionOptions& options);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_H_
