// A table of files that are malformed in many ways, with the expected outcome of each.
#ifndef BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_
#define BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_

#include <string>
#include <vector>

namespace braid {

struct MalformedFile {
  std::string kind;  // kind of damage
  std::string name;  // name of the file; the extension counts
  std::string bytes;
  int documents = 0;    // that it gives
  std::string rejects;  // "<reason> <count>", sorted, joined by ", "
};

// Returns at least 100 files of at least 25 kinds. Most files named "*.jsonl" have a good record,
// the bad one and another good record, so that `documents` is 2 plus those of the bad one.
std::vector<MalformedFile> MalformedFiles();

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_
