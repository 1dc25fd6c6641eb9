#include "client/gathered_corpus.h"

#include <gmock/gmock.h>
#include <stdlib.h>

#include <filesystem>
#include <sstream>
#include <string>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace gathered_corpus_test {

using testing::AllOf;
using testing::ContainsRegex;

// The script itself reads the files of this machine, which takes long.
TEST(GatheredCorpusTest, HasARowBeforeTheScriptEnds) {
  const ScratchDirectory scratch;
  PutFile(scratch / "python3", "#!/bin/sh\necho text > \"$2\"\necho '1 document'\n");
  std::filesystem::permissions(scratch / "python3", std::filesystem::perms::owner_all);
  const std::string path = getenv("PATH");
  setenv("PATH", (scratch.path().string() + ":" + path).c_str(), /*overwrite=*/1);
  std::ostringstream out;
  ProgressBoard board(out, /*terminal=*/true);
  const absl::Status gathered = GatherOnce({}, scratch / "corpus.jsonl", board);
  setenv("PATH", path.c_str(), /*overwrite=*/1);
  ASSERT_OK(gathered);
  EXPECT_THAT(out.str(), AllOf(ContainsRegex("gather +0 s  reading this machine's text"),
                               ContainsRegex("gather +1 document\n")));
  EXPECT_EQ(GetFile(scratch / "corpus.jsonl"), "text\n");
}

}  // namespace gathered_corpus_test
}  // namespace braid
