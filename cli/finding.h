// The result of one check of `braid doctor`.
#ifndef BRAID_CLI_FINDING_H_
#define BRAID_CLI_FINDING_H_

#include <ostream>
#include <string>
#include <vector>

namespace braid {

enum class Grade {
  kGood,
  // Works, but slowly or with a risk of failure.
  kWarning,
  kBad,
};

struct Finding {
  Grade verdict = Grade::kGood;
  // What was checked: "mpirun".
  std::string what;
  // What was found: "/usr/bin/mpirun".
  std::string found;
  // What to do unless the grade is good.
  std::string hint;
};

using Findings = std::vector<Finding>;

// Returns "good", "warning" or "bad".
std::string GradeName(Grade verdict);

// Prints one line per finding; findings that are not good are followed by their hint.
void PrintFindings(const Findings& findings, std::ostream& out);
// Returns a JSON array with one object per finding, whose keys are the names of its fields.
std::string FindingsToJson(const Findings& findings);

}  // namespace braid

#endif  // BRAID_CLI_FINDING_H_
