#include "pipeline/ordering/heldout_containment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "formats/word_runs.h"
#include "pipeline/ordering/word_run_index.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace heldout_containment_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

absl::Status Continue(const StagePosition&) { return absl::OkStatus(); }

Containment Find(const DocumentStore& documents, const std::vector<uint32_t>& training,
                 const std::vector<uint32_t>& heldout, const ContainmentOptions& options = {}) {
  auto found = FindContainment(documents, training, heldout, options, Continue);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(Containment());
}

// The runs of a text by position, as lists of words.
std::vector<std::string> RunsOf(const std::string& text) {
  std::istringstream words(NormalizeText(text));
  std::vector<std::string> all, runs;
  for (std::string word; words >> word;) all.push_back(word);
  for (size_t i = 0; i + kWordsPerRun <= all.size(); ++i) {
    std::string run;
    for (size_t j = i; j < i + kWordsPerRun; ++j) run += all[j] + " ";
    runs.push_back(run);
  }
  return runs;
}

// The obvious implementation of FindContainment(), which compares all pairs.
class BruteForce {
 public:
  BruteForce(const std::vector<std::string>& texts, const std::vector<uint32_t>& training,
             const std::vector<uint32_t>& heldout, const ContainmentOptions& options)
      : training_(training), heldout_(heldout), options_(options) {
    for (const std::string& text : texts) runs_.push_back(RunsOf(text));
    for (const uint32_t i : training) {
      for (const std::string& run : std::set(runs_[i].begin(), runs_[i].end())) ++count_[run];
    }
  }

  std::map<uint32_t, double> Overlaps() const {
    std::map<uint32_t, double> found;
    for (const uint32_t t : training_) {
      for (const uint32_t h : heldout_) {
        const double share = std::max(Share(h, t, true), Share(t, h, false));
        if (share >= options_.min_share) found[t] = std::max(found[t], share);
      }
    }
    return found;
  }

  // The shares after the removal of the documents of `removed`.
  std::vector<std::pair<int64_t, int64_t>> Shares(const std::map<uint32_t, double>& removed) const {
    std::set<std::string> in_training;
    for (const uint32_t t : training_) {
      if (!removed.contains(t)) in_training.insert(runs_[t].begin(), runs_[t].end());
    }
    std::vector<std::pair<int64_t, int64_t>> shares;
    for (const uint32_t h : heldout_) {
      shares.emplace_back(runs_[h].size(), std::ranges::count_if(runs_[h], [&](const auto& run) {
                            return in_training.contains(run);
                          }));
    }
    return shares;
  }

 private:
  bool IsBoilerplate(const std::string& run) const {
    const auto count = count_.find(run);
    return count != count_.end() && count->second > options_.max_run_documents;
  }

  // The share of the runs of `a` that `b` has, without all boilerplate or that of both.
  double Share(uint32_t a, uint32_t b, bool all_boilerplate) const {
    const std::set<std::string> others(runs_[b].begin(), runs_[b].end());
    double informative = 0, common = 0;
    for (const std::string& run : runs_[a]) {
      const bool both = others.contains(run);
      if (IsBoilerplate(run) && (both || all_boilerplate)) continue;
      ++informative;
      common += both ? 1 : 0;
    }
    return informative > 0 ? common / informative : 0;
  }

  const std::vector<uint32_t>& training_;
  const std::vector<uint32_t>& heldout_;
  const ContainmentOptions& options_;
  std::vector<std::vector<std::string>> runs_;
  std::map<std::string, uint32_t> count_;
};

std::string RandomText(int num_words, std::mt19937_64* random) {
  std::string text;
  for (int i = 0; i < num_words; ++i) {
    text += "w" + std::to_string((*random)() % 5000);
    text += (*random)() % 12 == 0 ? ".\n" : " ";
  }
  return text;
}

// Texts that contain each other, repeat themselves, quote each other and share a license.
std::vector<std::string> RelatedTexts(std::mt19937_64* random) {
  const std::string license = "Copyright: " + RandomText(40, random);
  std::vector<std::string> texts;
  for (int i = 0; i < 140; ++i) {
    std::string text = RandomText(static_cast<int>((*random)() % 80), random);
    const std::string other = texts.empty() ? "" : texts[(*random)() % texts.size()];
    switch ((*random)() % 6) {
      case 0:
        text = license + text;
        break;
      case 1:
        text += other;
        break;
      case 2:
        text += other.substr(other.size() / 2);
        break;
      case 3:
        text += text;
        break;
      default:
        break;
    }
    texts.push_back(text);
  }
  return texts;
}

TEST(HeldoutContainmentTest, EqualsTheComparisonOfAllPairs) {
  std::mt19937_64 random(17);
  const std::vector<std::string> texts = RelatedTexts(&random);
  const DocumentStore documents = StoreOf(texts);
  std::vector<uint32_t> training, heldout;
  for (uint32_t i = 0; i < texts.size(); ++i) {
    const uint64_t draw = random() % 10;
    if (draw < 3) heldout.push_back(i);
    if (draw > 3) training.push_back(i);
  }
  for (const double min_share : {0.3, 0.5, 1.0, 1.5}) {
    for (const uint32_t max_run_documents : {1u, 8u, 1000u}) {
      ContainmentOptions options{.min_share = min_share, .max_run_documents = max_run_documents};
      const BruteForce brute_force(texts, training, heldout, options);
      const std::map<uint32_t, double> expected = brute_force.Overlaps();
      if (min_share < 1) {
        ASSERT_GE(expected.size(), 5u);
      }
      const auto expected_shares = brute_force.Shares(expected);
      for (const auto& [bytes, threads] : std::vector<std::pair<int64_t, int>>{
               {int64_t{1} << 30, 1}, {int64_t{1} << 30, 3}, {2000, 2}}) {
        SetRetrievalThreads(threads);
        options.max_index_bytes = bytes;
        const Containment found = Find(documents, training, heldout, options);
        std::map<uint32_t, double> overlaps;
        for (const HeldoutOverlap& overlap : found.overlaps) {
          overlaps[overlap.document] = overlap.containment;
          EXPECT_TRUE(std::ranges::binary_search(heldout, overlap.heldout));
        }
        EXPECT_EQ(overlaps, expected) << min_share << " " << max_run_documents;
        std::vector<std::pair<int64_t, int64_t>> shares;
        for (const RunShare& share : found.shares) {
          shares.emplace_back(share.num_runs, share.num_shared);
        }
        EXPECT_EQ(shares, expected_shares) << min_share << " " << max_run_documents;
      }
    }
  }
  SetRetrievalThreads(0);
}

TEST(HeldoutContainmentTest, FindsADocumentMadeOfAHeldOutOneAndAsMuchOtherText) {
  std::mt19937_64 random(5);
  const std::string original = RandomText(200, &random);
  const std::string around = RandomText(100, &random);
  const DocumentStore documents =
      StoreOf({original, around + original + RandomText(100, &random),
               original.substr(0, original.size() / 3), RandomText(200, &random)});
  const Containment found = Find(documents, {1, 2, 3}, {0});
  ASSERT_THAT(found.overlaps, SizeIs(2));
  EXPECT_EQ(found.overlaps[0].document, 1u);
  EXPECT_EQ(found.overlaps[0].containment, 1.0);
  EXPECT_LT(found.overlaps[0].jaccard, 0.7);
  EXPECT_EQ(found.overlaps[1].document, 2u) << "an excerpt";
  ASSERT_THAT(found.shares, SizeIs(1));
  EXPECT_EQ(found.shares[0].num_runs, 188);
  EXPECT_EQ(found.shares[0].num_shared, 0);
}

TEST(HeldoutContainmentTest, IgnoresALicenseThatManyDocumentsHave) {
  std::mt19937_64 random(6);
  const std::string license = RandomText(60, &random);
  std::vector<std::string> texts = {license, license + RandomText(50, &random)};
  std::vector<uint32_t> training;
  for (uint32_t i = 0; i < 40; ++i) {
    training.push_back(static_cast<uint32_t>(texts.size()));
    texts.push_back(license + RandomText(20, &random));
  }
  const DocumentStore documents = StoreOf(texts);
  const Containment found = Find(documents, training, {0, 1});
  EXPECT_THAT(found.overlaps, IsEmpty());
  EXPECT_EQ(found.shares[0].num_shared, found.shares[0].num_runs) << "it is still reported";
}

TEST(HeldoutContainmentTest, StopsWhenTheCallbackFails) {
  const DocumentStore documents = StoreOf({"some text", "some text"});
  const auto found =
      FindContainment(documents, std::vector<uint32_t>{0}, std::vector<uint32_t>{1}, {},
                      [](const StagePosition&) { return absl::CancelledError("stop"); });
  EXPECT_EQ(found.status().code(), absl::StatusCode::kCancelled);
}

TEST(WordRunIndexTest, CountsIdeographsAndKanaAsWords) {
  const std::string sentence = "我們在這裡讀一本很好的書也寫字";  // 15 characters
  const std::vector<std::string_view> texts = {sentence, "a b c d e f g h i j k l m n",
                                               "too short"};
  const WordRunIndex index(texts);
  EXPECT_THAT(index.runs_of(0), SizeIs(3));
  EXPECT_THAT(index.runs_of(1), SizeIs(2));
  EXPECT_THAT(index.runs_of(2), IsEmpty());
  std::vector<uint32_t> runs;
  index.Find("B, c d e f g h i j k l m -- N and 我們在這裡讀一本很好的書也", &runs);
  ASSERT_THAT(runs, SizeIs(15));
  EXPECT_EQ(runs.front(), index.runs_of(1)[1]);
  EXPECT_EQ(runs.back(), index.runs_of(0)[0]);
  EXPECT_EQ(std::ranges::count(runs, WordRunIndex::kUnknown), 13);
  EXPECT_THAT(index.texts_with(runs.back()), ElementsAre(0u));
  EXPECT_EQ(index.words(runs.front()), "b c d e f g h i j k l m n");
}

}  // namespace heldout_containment_test
}  // namespace braid
