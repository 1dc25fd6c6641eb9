#include "pipeline/ordering/packing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>

#include "pipeline/ordering/instance_layout.h"
#include "pipeline/ordering/random_permutation.h"
#include "tests/pipeline/ordering/shuffled_spans.h"

namespace braid {
namespace packing_test {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr int32_t kEos = 2;
using Tokens = std::vector<int32_t>;

struct Packed {
  std::vector<Tokens> instances;
  std::vector<ProvenanceSpan> spans;
  int32_t sequence_length = 0;
  int64_t num_tokens = 0;
};

// Packs the documents 0, 1, ...
Packed Pack(const std::vector<Tokens>& documents, int32_t sequence_length) {
  Packed packed;
  packed.sequence_length = sequence_length;
  Packer packer(sequence_length, kEos, [&](auto tokens, auto spans) {
    packed.instances.emplace_back(tokens.begin(), tokens.end());
    packed.spans.insert(packed.spans.end(), spans.begin(), spans.end());
    return absl::OkStatus();
  });
  for (size_t i = 0; i < documents.size(); ++i) {
    EXPECT_TRUE(packer.Add(static_cast<uint32_t>(i), documents[i]).ok());
  }
  EXPECT_TRUE(packer.Finish().ok());
  EXPECT_EQ(packer.num_instances(), static_cast<int64_t>(packed.instances.size()));
  packed.num_tokens = packer.num_tokens();
  return packed;
}

// Returns the spans of the same instances, computed from the lengths alone, in stored order.
std::vector<ProvenanceSpan> LaidOut(const std::vector<Tokens>& documents, int32_t sequence_length,
                                    const std::vector<uint32_t>& shuffle) {
  std::vector<uint32_t> order(documents.size());
  std::vector<int32_t> lengths(documents.size());
  for (size_t i = 0; i < documents.size(); ++i) {
    order[i] = static_cast<uint32_t>(i);
    lengths[i] = static_cast<int32_t>(documents[i].size());
  }
  const InstanceLayout layout(order, lengths, sequence_length);
  EXPECT_EQ(layout.num_instances(), static_cast<int64_t>(shuffle.size()));
  std::vector<ProvenanceSpan> spans;
  for (uint32_t i = 0; i < shuffle.size(); ++i) layout.AppendSpans(shuffle[i], i, &spans);
  return spans;
}

std::vector<Tokens> RandomDocuments(std::mt19937_64* random) {
  std::vector<Tokens> documents((*random)() % 12);
  for (Tokens& document : documents) {
    document.resize((*random)() % 30);
    for (int32_t& token : document) token = static_cast<int32_t>((*random)() % 1000);
  }
  return documents;
}

TEST(PackerTest, JoinsByEosAndCuts) {
  const Packed packed = Pack({{10, 11, 12}, {20}, {}, {30, 31}}, 3);
  EXPECT_THAT(packed.instances,
              ElementsAre(Tokens{10, 11, 12, kEos}, Tokens{20, kEos, kEos, 30}, Tokens{31, kEos}));
  EXPECT_THAT(packed.spans,
              ElementsAre(ProvenanceSpan{0, 0, 0, 0, 4}, ProvenanceSpan{1, 0, 1, 0, 2},
                          ProvenanceSpan{2, 0, 1, 2, 1}, ProvenanceSpan{3, 0, 1, 3, 1},
                          ProvenanceSpan{3, 1, 2, 0, 2}));
}

TEST(PackerTest, GivesAnEosInTheNextInstanceASpan) {
  const Packed packed = Pack({{10, 11}}, 1);
  EXPECT_THAT(packed.instances, ElementsAre(Tokens{10, 11}, Tokens{kEos}));
  EXPECT_THAT(packed.spans,
              ElementsAre(ProvenanceSpan{0, 0, 0, 0, 2}, ProvenanceSpan{0, 2, 1, 0, 1}));
}

TEST(PackerTest, PacksNoInstancesFromNoDocuments) { EXPECT_THAT(Pack({}, 8).instances, IsEmpty()); }

TEST(PackerTest, InstancesConcatenateToTheJoinedDocuments) {
  std::mt19937_64 random(7);
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<Tokens> documents = RandomDocuments(&random);
    const int32_t sequence_length = 1 + static_cast<int32_t>(random() % 20);
    const Packed packed = Pack(documents, sequence_length);
    Tokens joined, concatenated;
    for (const Tokens& document : documents) {
      joined.insert(joined.end(), document.begin(), document.end());
      joined.push_back(kEos);
    }
    for (size_t i = 0; i < packed.instances.size(); ++i) {
      const Tokens& instance = packed.instances[i];
      concatenated.insert(concatenated.end(), instance.begin(), instance.end());
      const bool last = i + 1 == packed.instances.size();
      if (!last) {
        ASSERT_THAT(instance, SizeIs(sequence_length + 1));
      }
      ASSERT_GE(instance.size(), 1u);
    }
    ASSERT_EQ(concatenated, joined) << "trial " << trial;
    ASSERT_EQ(packed.num_tokens, static_cast<int64_t>(joined.size()));
  }
}

TEST(PackerTest, ProvenanceFindsEveryTokenInBothDirectionsAfterTheShuffle) {
  std::mt19937_64 random(8);
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<Tokens> documents = RandomDocuments(&random);
    const Packed packed = Pack(documents, 1 + static_cast<int32_t>(random() % 20));
    const auto shuffle = InstanceShuffle(static_cast<int64_t>(packed.instances.size()), trial);
    const std::vector<ProvenanceSpan> spans = ShuffleSpans(packed.spans, shuffle);
    ASSERT_EQ(LaidOut(documents, packed.sequence_length, shuffle), spans);
    std::vector<Tokens> found(documents.size());
    for (size_t i = 0; i < found.size(); ++i) found[i].assign(documents[i].size() + 1, -1);
    std::map<uint32_t, int32_t> covered;
    for (const ProvenanceSpan& span : spans) {
      const Tokens& instance = packed.instances[shuffle[span.instance]];
      ASSERT_EQ(span.instance_offset, covered[span.instance]) << "gap or overlap";
      covered[span.instance] += span.length;
      for (int32_t i = 0; i < span.length; ++i) {
        int32_t& token = found[span.document].at(span.document_offset + i);
        ASSERT_EQ(token, -1) << "a token of document " << span.document << " twice";
        token = instance.at(span.instance_offset + i);
      }
    }
    for (size_t i = 0; i < documents.size(); ++i) {
      Tokens expected = documents[i];
      expected.push_back(kEos);
      ASSERT_EQ(found[i], expected);
    }
    for (size_t i = 0; i < shuffle.size(); ++i) {
      ASSERT_EQ(covered[i], static_cast<int32_t>(packed.instances[shuffle[i]].size()));
    }
  }
}

TEST(PackerTest, StopsAtAnErrorOfTheSink) {
  Packer packer(1, kEos, [](auto, auto) { return absl::ResourceExhaustedError("disk full"); });
  EXPECT_EQ(packer.Add(0, Tokens{5, 6, 7}).message(), "disk full");
}

TEST(InstanceShuffleTest, IsASeededPermutationOfItsOwnStream) {
  std::vector<uint32_t> shuffle = InstanceShuffle(100, 3);
  EXPECT_EQ(shuffle, InstanceShuffle(100, 3));
  EXPECT_NE(shuffle, InstanceShuffle(100, 4));
  EXPECT_NE(shuffle, RandomPermutation(100, 3));
  std::sort(shuffle.begin(), shuffle.end());
  for (uint32_t i = 0; i < 100; ++i) EXPECT_EQ(shuffle[i], i);
}

// Cuts an order into runs that are complete as soon as they have enough tokens.
std::vector<std::vector<uint32_t>> RunsOf(const std::vector<uint32_t>& order,
                                          const std::vector<int32_t>& lengths, int64_t run_tokens) {
  std::vector<std::vector<uint32_t>> runs;
  int64_t tokens = run_tokens;
  for (size_t i = 0; i < order.size(); ++i) {
    if (tokens >= run_tokens) {
      runs.emplace_back();
      tokens = 0;
    }
    runs.back().push_back(order[i]);
    tokens += lengths[i] + 1;
  }
  return runs;
}

TEST(ShuffleRunsTest, MovesRunsOfWholeDocumentsOfEnoughTokens) {
  std::mt19937_64 random(9);
  for (int trial = 0; trial < 300; ++trial) {
    const std::vector<uint32_t> order =
        RandomPermutation(static_cast<int64_t>(random() % 60), random());
    std::vector<int32_t> lengths(order.size());
    for (int32_t& length : lengths) length = static_cast<int32_t>(random() % 20);
    const int64_t run_tokens = 1 + static_cast<int64_t>(random() % 80);
    std::map<uint32_t, std::vector<uint32_t>> by_first;
    for (const auto& run : RunsOf(order, lengths, run_tokens)) by_first[run.front()] = run;
    const std::vector<uint32_t> shuffled = ShuffleRuns(order, lengths, run_tokens, trial);
    ASSERT_EQ(shuffled, ShuffleRuns(order, lengths, run_tokens, trial));
    ASSERT_EQ(shuffled.size(), order.size());
    for (size_t at = 0; at < shuffled.size();) {
      const auto run = by_first.find(shuffled[at]);
      ASSERT_NE(run, by_first.end())
          << "document " << shuffled[at] << " begins no run, or a second";
      for (const uint32_t document : run->second) ASSERT_EQ(shuffled.at(at++), document);
      by_first.erase(run);
    }
    ASSERT_THAT(by_first, IsEmpty());
  }
}

TEST(ShuffleRunsTest, IsSeededAndKeepsASingleRun) {
  std::vector<uint32_t> order(100);
  for (uint32_t i = 0; i < 100; ++i) order[i] = 99 - i;
  const std::vector<int32_t> lengths(100, 9);
  EXPECT_NE(ShuffleRuns(order, lengths, 50, 1), ShuffleRuns(order, lengths, 50, 2));
  EXPECT_NE(ShuffleRuns(order, lengths, 50, 1), order);
  EXPECT_EQ(ShuffleRuns(order, lengths, 1000, 1), order);
}

}  // namespace packing_test
}  // namespace braid
