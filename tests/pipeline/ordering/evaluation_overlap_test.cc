#include "pipeline/ordering/evaluation_overlap.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "formats/word_runs.h"
#include "pipeline/store/stage_key.h"
#include "retrieval/parallel_for.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace evaluation_overlap_test {

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

absl::Status Continue(const StagePosition&) { return absl::OkStatus(); }

EvaluationOverlap Find(const DocumentStore& documents, const std::vector<EvaluationPassage>& texts,
                       int64_t max_index_bytes = 1 << 20) {
  std::vector<uint32_t> all(static_cast<size_t>(documents.size()));
  std::iota(all.begin(), all.end(), 0u);
  auto found = FindEvaluationOverlap(documents, all, texts, Continue, max_index_bytes);
  EXPECT_TRUE(found.ok()) << found.status();
  return found.value_or(EvaluationOverlap());
}

std::string Words(int count, int vocabulary, std::mt19937_64* random) {
  std::string text;
  for (int i = 0; i < count; ++i) text += "w" + std::to_string((*random)() % vocabulary) + " ";
  return text;
}

std::set<std::string> RunsOf(std::string_view text) {
  std::set<std::string> runs;
  for (WordRuns run(NormalizeText(text)); run.Next();) runs.emplace(run.text());
  return runs;
}

TEST(EvaluationOverlapTest, FindsAllPlantedOverlapsAndNoOtherDocument) {
  std::mt19937_64 random(31);
  std::vector<std::string> examples;
  for (int i = 0; i < 300; ++i) examples.push_back(Words(8 + i % 30, 2000, &random));
  std::vector<std::string> texts;
  std::set<uint32_t> planted;
  for (uint32_t i = 0; i < 20000; ++i) {
    std::string text = Words(30, 2000, &random);
    const std::string& example = examples[i % examples.size()];
    if (i % 40 == 0 && i % examples.size() % 30 >= 5) {
      text += example + Words(10, 2000, &random);
      planted.insert(i);
    } else if (i % 40 == 1) {
      // Twelve words in common are not enough, whatever follows.
      const size_t twelfth = [&] {
        size_t end = 0;
        for (int word = 0; word < 12 && end < example.size(); ++word) {
          end = example.find(' ', end) + 1;
        }
        return end;
      }();
      text += example.substr(0, twelfth) + "unlike " + Words(10, 2000, &random);
    }
    texts.push_back(text);
  }
  std::vector<EvaluationPassage> passages;
  for (size_t i = 0; i < examples.size(); ++i) {
    passages.push_back({examples[i], static_cast<uint32_t>(i / 100)});
  }
  const DocumentStore documents = StoreOf(texts);
  for (const auto& [bytes, threads] :
       std::vector<std::pair<int64_t, int>>{{1 << 20, 2}, {999, 1}}) {
    SetRetrievalThreads(threads);
    const EvaluationOverlap overlap = Find(documents, passages, bytes);
    std::set<uint32_t> found;
    for (const EvaluationMatch& match : overlap.matches) {
      found.insert(match.document);
      EXPECT_TRUE(RunsOf(texts[match.document]).contains(match.words));
      EXPECT_TRUE(RunsOf(examples[match.text]).contains(match.words));
      EXPECT_TRUE(match.files.contains(match.text / 100));
    }
    EXPECT_EQ(found, planted);
    // Texts by comparing strings.
    std::set<std::string> all;
    for (const uint32_t i : planted) all.merge(RunsOf(texts[i]));
    ASSERT_EQ(overlap.matched.size(), examples.size());
    for (size_t i = 0; i < examples.size(); ++i) {
      const std::set<std::string> own = RunsOf(examples[i]);
      EXPECT_EQ(overlap.has_runs[i], !own.empty());
      EXPECT_EQ(overlap.matched[i], std::ranges::any_of(own, [&](const std::string& run) {
                  return all.contains(run);
                }));
    }
  }
  SetRetrievalThreads(0);
}

TEST(EvaluationOverlapTest, IgnoresListsOfNumbers) {
  const std::string labels = "0 1 1 0 1 0 0 1 1 1 0 1 0 0 1 0 1 1";
  const DocumentStore documents = StoreOf({"table: " + labels, "other"});
  const std::vector<EvaluationPassage> texts = {{labels, 0}};
  const EvaluationOverlap overlap = Find(documents, texts);
  EXPECT_THAT(overlap.matches, IsEmpty());
  EXPECT_THAT(overlap.runs, IsEmpty());
}

TEST(EvaluationOverlapTest, ListsTheRunsThatDocumentsShare) {
  const std::string example = "the quick brown fox jumps over the lazy dog and then it sleeps well";
  const DocumentStore documents = StoreOf(
      {"The quick, brown fox jumps over the lazy dog; and then it sleeps -- badly.", "other"});
  const std::vector<EvaluationPassage> texts = {{"short", 0}, {example, 1}};
  const EvaluationOverlap overlap = Find(documents, texts);
  ASSERT_THAT(overlap.matches, SizeIs(1));
  EXPECT_EQ(overlap.matches[0].text, 1u);
  EXPECT_EQ(overlap.matches[0].words,
            "the quick brown fox jumps over the lazy dog and then it sleeps");
  EXPECT_THAT(overlap.matches[0].files, ElementsAre(1u));
  WordRuns run(NormalizeText(example));
  ASSERT_TRUE(run.Next());
  EXPECT_THAT(overlap.runs, ElementsAre(run.hash()));
}

}  // namespace evaluation_overlap_test
}  // namespace braid
