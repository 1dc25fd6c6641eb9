// The sections of the page of a reproduction. Each is a pure function that returns HTML.
#ifndef BRAID_REPRODUCE_PAGE_SECTIONS_H_
#define BRAID_REPRODUCE_PAGE_SECTIONS_H_

#include <string>

#include "reproduce/reproduction_report.h"

namespace braid {

// verdicts_section.cc
// Returns the number of claims with each verdict, and each claim with its numbers and those of the
// paper.
std::string VerdictsSection(const Reproduction& reproduction);

// effects_section.cc
// Returns all judged effects, one plot per unit; "" if none was measured.
std::string EffectsSection(const Reproduction& reproduction);

// claim_section.cc
// Returns all results of one claim.
std::string ClaimSection(const Claim& claim);
// Returns "claim-3", the target of links.
std::string ClaimId(const Claim& claim);
// Returns "3. Experts gain more ..." as plain text.
std::string ClaimTitle(const Claim& claim);

// setup_section.cc
// Returns the configuration, the corpus and the runs.
std::string SetupSection(const Reproduction& reproduction);

// tuned_runs_table.cc
// Returns the scores of all fine-tuned models; "" without any.
std::string TunedRunsTable(const Reproduction& reproduction);

// reading_section.cc
// Returns the explanation of intervals, of the rule of verdicts and of the limits.
std::string ReadingSection(const Reproduction& reproduction);
// Returns "95 %".
std::string ConfidenceText(const Reproduction& reproduction);
// Returns whether losses leave first segments out; false: only the first position.
bool LeavesSegmentsOut(const Experiment& experiment);

// Returns the number of different seeds of the runs or, without runs, the largest number of seeds
// of any effect.
size_t NumSeeds(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_PAGE_SECTIONS_H_
