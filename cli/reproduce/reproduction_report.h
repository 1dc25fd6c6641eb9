// What an experiment ends with, for people and for programs.
#ifndef BRAID_CLI_REPRODUCE_REPRODUCTION_REPORT_H_
#define BRAID_CLI_REPRODUCE_REPRODUCTION_REPORT_H_

#include <cstdint>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include "cli/reproduce/claim.h"
#include "cli/reproduce/reproduction_plan.h"

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

// reproduction.json; docs/reproduction.md lists the fields. Numbers that are not finite are null.
std::string ReproductionJson(const Reproduction& reproduction);

// Each claim with its verdict, and below it a row for each judged effect with its interval.
void PrintClaims(std::span<const Claim> claims, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLI_REPRODUCE_REPRODUCTION_REPORT_H_
