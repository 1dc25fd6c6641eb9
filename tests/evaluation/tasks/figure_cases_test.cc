// Seeded texts, labels and numbers with their figures, written to the directory that BRAID_CASES
// names, for tests/peers/text_figures.py.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "evaluation/tasks/choice_figures.h"
#include "evaluation/tasks/number_figures.h"
#include "evaluation/tasks/text_figures.h"
#include "tests/base/scratch_directory.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace figure_cases_test {

using nlohmann::json;

constexpr int kPairs = 200;

// Returns a text with some words left out, repeated or exchanged.
std::string Changed(const std::string& text, std::mt19937& random) {
  std::vector<std::string> words;
  for (const absl::string_view word : absl::StrSplit(text, ' ')) {
    const uint32_t fate = random() % 10;
    if (fate == 0) continue;
    words.emplace_back(word);
    if (fate == 1) words.emplace_back(word);
    if (fate == 2 && words.size() > 1) std::swap(words.back(), words[words.size() - 2]);
  }
  return absl::StrJoin(words, " ");
}

// Changes references of the golden texts, so that candidates match them in part.
json TextCases(std::mt19937& random) {
  const json golden =
      json::parse(GetFile(GoldenPath("text_figures").replace_extension(".json")))["pairs"];
  std::vector<TextPair> pairs;
  json cases = {{"pairs", json::array()}};
  for (int i = 0; i < kPairs; ++i) {
    const std::vector<std::string> texts = golden[random() % golden.size()]["references"];
    TextPair pair = {Changed(texts[random() % texts.size()], random), {}};
    for (size_t n = 1 + random() % 3; n > 0; --n) {
      pair.references.push_back(Changed(texts[random() % texts.size()], random));
    }
    json words = json::array();
    for (const std::string& text : pair.references) words.push_back(FigureWords(text, true));
    cases["pairs"].push_back({{"candidate", pair.candidate},
                              {"references", pair.references},
                              {"candidate_words", FigureWords(pair.candidate, true)},
                              {"reference_words", words}});
    pairs.push_back(std::move(pair));
  }
  cases["BLEU"] = TextFigure(v1::BLEU, pairs).Value();
  cases["ROUGE_L"] = TextFigure(v1::ROUGE_L, pairs).Value();
  return cases;
}

// Labels of `classes` classes, right with a probability of 3 / 4.
json LabelCase(int classes, std::mt19937& random) {
  std::vector<Prediction> predictions;
  json pairs = json::array();
  for (int i = 0; i < kPairs; ++i) {
    const int right = static_cast<int>(random() % static_cast<uint32_t>(classes));
    const int other = static_cast<int>(random() % static_cast<uint32_t>(classes));
    predictions.push_back({right, random() % 4 == 0 ? other : right});
    pairs.push_back({right, predictions.back().predicted});
  }
  return {{"predictions", pairs},
          {"MATTHEWS", MatthewsFigure(predictions).Value()},
          {"MACRO_F1", MacroF1Figure(predictions).Value()}};
}

json NumberCase(std::mt19937& random) {
  std::normal_distribution<double> normal;
  std::vector<NumberPair> numbers;
  json pairs = json::array();
  for (int i = 0; i < kPairs; ++i) {
    const double right = 2.5 + normal(random);
    numbers.push_back({right, right + normal(random)});
    pairs.push_back({right, numbers.back().predicted});
  }
  return {{"pairs", pairs}, {"PEARSON", PearsonFigure(numbers).Value()}};
}

TEST(FigureCasesTest, AreNeitherPerfectNorWorthless) {
  std::mt19937 random(21);
  json cases = {{"texts", TextCases(random)}, {"labels", json::array()}};
  for (const int classes : {2, 3, 7}) cases["labels"].push_back(LabelCase(classes, random));
  cases["numbers"] = NumberCase(random);
  std::vector<double> values = {cases["texts"]["BLEU"], cases["texts"]["ROUGE_L"],
                                cases["numbers"]["PEARSON"]};
  for (const json& labels : cases["labels"]) {
    values.insert(values.end(), {labels["MATTHEWS"], labels["MACRO_F1"]});
  }
  EXPECT_THAT(values, testing::Each(testing::AllOf(testing::Gt(.3), testing::Lt(.95))));
  if (const char* const directory = std::getenv("BRAID_CASES")) {
    PutFile(std::filesystem::path(directory) / "figures.json", cases.dump());
  }
}

}  // namespace figure_cases_test
}  // namespace braid
