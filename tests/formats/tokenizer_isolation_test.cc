// Two versions of Protocol Buffers, the module's and the program's, in one process.
#include <gtest/gtest.h>

#include <filesystem>

#include "braid/v1/corpus.pb.h"
#include "formats/tokenizer.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace tokenizer_isolation_test {

std::string RoundTripThroughProto(int64_t value) {
  v1::CorpusSpec spec;
  spec.set_name("name");
  spec.mutable_ingest()->set_split_bytes(value);
  v1::CorpusSpec parsed;
  EXPECT_TRUE(parsed.ParseFromString(spec.SerializeAsString()));
  return parsed.DebugString();
}

TEST(TokenizerIsolationTest, WorksBesideProtobuf) {
  const std::string before = RoundTripThroughProto(450);
  const CraftedFiles files;
  const std::vector<std::string> sample(20,
                                        "each segment merges its experts by the last one's mean\n");
  const auto path = files.directory() / "tokenizer.model";
  const absl::Status status = TrainTokenizer(sample, {.vocab_size = 290}, path);
  ASSERT_TRUE(status.ok()) << status;
  const auto tokenizer = Tokenizer::Load(path);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->Decode((*tokenizer)->Encode("the last expert\n")), "the last expert\n");
  EXPECT_EQ(RoundTripThroughProto(450), before);
}

}  // namespace tokenizer_isolation_test
}  // namespace braid
