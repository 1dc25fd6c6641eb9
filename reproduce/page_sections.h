// The sections of the page of a reproduction. Each is a pure function to HTML.
#ifndef BRAID_REPRODUCE_PAGE_SECTIONS_H_
#define BRAID_REPRODUCE_PAGE_SECTIONS_H_

#include <string>

#include "reproduce/reproduction_report.h"

namespace braid {

// verdicts_section.cc
// How many claims came out how, and each with its numbers beside those of the paper.
std::string VerdictsSection(const Reproduction& reproduction);

// effects_section.cc
// All judged effects, a plot a unit; empty when none was measured.
std::string EffectsSection(const Reproduction& reproduction);

// claim_section.cc
// Everything that is known of one claim.
std::string ClaimSection(const Claim& claim);
// "claim-3"; what links name.
std::string ClaimId(const Claim& claim);
// "3. Experts gain more ...", plain text.
std::string ClaimTitle(const Claim& claim);

// setup_section.cc
// What was run, on what.
std::string SetupSection(const Reproduction& reproduction);

// reading_section.cc
// Intervals, the rule of verdicts, limits.
std::string ReadingSection(const Reproduction& reproduction);
// "95 %".
std::string ConfidenceText(const Reproduction& reproduction);

// Different seeds of the runs; without runs, the most that any effect has.
size_t NumSeeds(const Reproduction& reproduction);

}  // namespace braid

#endif  // BRAID_REPRODUCE_PAGE_SECTIONS_H_
