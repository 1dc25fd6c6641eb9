// What an experiment ends with, and how programs read it.
#ifndef BRAID_REPRODUCE_REPRODUCTION_REPORT_H_
#define BRAID_REPRODUCE_REPRODUCTION_REPORT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "reproduce/claim.h"
#include "reproduce/reproduction_plan.h"

namespace braid {

// One run of the experiment.
struct ReproducedRun {
  std::string name = {};
  std::string arm = {};
  v1::OrderMode order = v1::SIMILARITY;
  uint64_t seed = 0;
  // Of the run, such as "run-000012".
  std::string id = {};
  // Nats per token without first segments.
  double training_loss = 0;
  double heldout_loss = 0;
};

struct Reproduction {
  // "quick" or "full".
  std::string plan = {};
  // How it was asked for, and the version of the program.
  std::string command = {};
  std::string version = {};
  int64_t num_steps = 0;
  int64_t tokens_of_run = 0;
  double confidence = 0.95;
  // Files and directories, as the service that read them names them.
  std::vector<std::string> corpus_paths = {};
  // What it became, by order, and how much of it was held out: windows, by domain.
  std::map<v1::OrderMode, std::string> dataset_dirs = {};
  std::map<std::string, int64_t> heldout_windows = {};
  // Of the first run of the main arm, with every default filled in; ArmDefinitions say what others
  // have instead. Without a dataset when nothing was launched.
  v1::RunSpec spec = {};
  std::vector<DomainProfile> domains = {};
  // What the check of the corpus found; runs without a result.
  std::vector<std::string> notes = {};
  std::vector<ReproducedRun> runs = {};
  std::vector<Claim> claims = {};
  // Wall seconds of all calls together.
  double seconds = 0;
};

// A run as it is reported. Losses are NaN where there is nothing to take them from.
ReproducedRun ReproducedRunOf(const ArmResult& result, const std::string& name,
                              const std::string& id, int32_t first_positions);

// Windows of the held-out split by domain, which all models are scored on; empty without a score.
std::map<std::string, int64_t> HeldoutWindows(std::span<const ArmResult> results);

// reproduction.json; docs/reproduction.md lists the fields. Numbers that are not finite are null.
std::string ReproductionJson(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_REPRODUCTION_REPORT_H_
