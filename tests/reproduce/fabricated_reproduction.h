// A fabricated experiment: plausible numbers for every arm, from which the claims are evaluated.
#ifndef BRAID_TESTS_REPRODUCE_FABRICATED_REPRODUCTION_H_
#define BRAID_TESTS_REPRODUCE_FABRICATED_REPRODUCTION_H_

#include <string>
#include <vector>

#include "reproduce/reproduction_report.h"

namespace braid {

struct Fabrication {
  int num_seeds = 3;
  int num_steps = 200;
  std::vector<std::string> domains = {"arxiv", "books", "code", "law",
                                      "mail",  "news",  "web",  "wikipedia"};
  // Standard deviation of a normal offset of the loss of the MoE of each seed.
  double seed_deviation = 0.008;
};

Reproduction FabricateReproduction(const Fabrication& fabrication);

}  // namespace braid

#endif  // BRAID_TESTS_REPRODUCE_FABRICATED_REPRODUCTION_H_
