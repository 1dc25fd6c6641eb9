// What `braid doctor` has found out about one thing.
#ifndef BRAID_CLI_FINDING_H_
#define BRAID_CLI_FINDING_H_

#include <ostream>
#include <string>
#include <vector>

namespace braid {

enum class Grade {
  kGood,
  // Works, but slowly, or not for long.
  kDoubtful,
  kBad,
};

struct Finding {
  Grade verdict = Grade::kGood;
  std::string what;   // "mpirun"
  std::string found;  // "/usr/bin/mpirun"
  std::string hint;   // what to do unless it is good
};

using Findings = std::vector<Finding>;

// "good", "doubtful", "bad".
std::string GradeName(Grade verdict);

// A line for each finding, those that ask for something with their hint below.
void PrintFindings(const Findings& findings, std::ostream& out);
// An array of objects with the fields' names.
std::string FindingsToJson(const Findings& findings);

}  // namespace braid

#endif  // BRAID_CLI_FINDING_H_
