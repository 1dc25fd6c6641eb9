// A table of files that are broken in every way we could think of, and what becomes of each.
#ifndef BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_
#define BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_

#include <string>
#include <vector>

namespace braid {

struct MalformedFile {
  std::string kind;  // of damage
  std::string name;  // of the file; the extension counts
  std::string bytes;
  int documents = 0;    // that it gives
  std::string rejects;  // "<reason> <count>", sorted, joined by ", "
};

// At least 100 files of at least 25 kinds. A file named "*.jsonl" mostly is a good record, the bad
// one and another good record, so that `documents` is 2 plus what the bad one gives.
std::vector<MalformedFile> MalformedFiles();

}  // namespace braid

#endif  // BRAID_TESTS_PIPELINE_CORPUS_MALFORMED_FILES_H_
