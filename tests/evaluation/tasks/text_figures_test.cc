#include "evaluation/tasks/text_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "evaluation/tasks/choice_figures.h"
#include "evaluation/tasks/equation_value.h"
#include "evaluation/tasks/porter_stem.h"
#include "evaluation/tasks/task_comparison.h"
#include "evaluation/tasks/task_spec.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/evaluation/tasks/fake_decoder.h"
#include "tests/evaluation/tasks/sample_tasks.h"

namespace braid {
namespace text_figures_test {

using testing::ElementsAre;
using testing::SizeIs;

// 20 texts with one to three references. BLEU by sacreBLEU 2.6, ROUGE-L and CIDEr by pycocoevalcap,
// METEOR by NLTK's matching with stems, NIST with one reference by NLTK and with several by a loop
// over the formula. Labels with the values of scikit-learn 1.9.
const nlohmann::json& Golden() {
  static const nlohmann::json* const golden = new nlohmann::json(
      nlohmann::json::parse(GetFile(GoldenPath("text_figures").replace_extension(".json"))));
  return *golden;
}

std::vector<TextPair> Pairs() {
  std::vector<TextPair> pairs;
  for (const nlohmann::json& pair : Golden()["pairs"])
    pairs.push_back({pair["candidate"], pair["references"]});
  return pairs;
}

TEST(TextFiguresTest, EqualThoseOfOtherPrograms) {
  const std::map<std::string, v1::TaskFigure> figures = {{"BLEU", v1::BLEU},
                                                         {"NIST", v1::NIST},
                                                         {"METEOR", v1::METEOR},
                                                         {"ROUGE_L", v1::ROUGE_L},
                                                         {"CIDER", v1::CIDER}};
  for (const auto& [name, figure] : figures) {
    EXPECT_NEAR(TextFigure(figure, Pairs()).Value(), Golden()[name].get<double>(), 1e-9) << name;
  }
  std::vector<TextPair> first = Pairs();
  for (TextPair& pair : first) pair.references.resize(1);
  EXPECT_NEAR(TextFigure(v1::NIST, first).Value(), Golden()["NIST_first_reference"].get<double>(),
              1e-9);
}

TEST(TextFiguresTest, WordsAreThoseOfSacreBleu) {
  for (const nlohmann::json& pair : Golden()["pairs"]) {
    EXPECT_EQ(FigureWords(pair["candidate"].get<std::string>(), /*plain=*/false),
              pair["words"].get<std::vector<std::string>>());
  }
  EXPECT_THAT(FigureWords("It's 1,000.5 \"Good\" - yes!", true),
              ElementsAre("it's", "1,000.5", "good", "yes"));
  EXPECT_THAT(FigureWords("a &amp;lt; b&amp;amp;c\u00A0d\u2003e\vf", false),
              ElementsAre("a", "<", "b", "&", "amp", ";", "c", "d", "e", "f"));
}

TEST(TextFiguresTest, StemsAreThoseOfPorter) {
  for (const auto& [word, stem] : Golden()["stems"].items()) {
    EXPECT_EQ(PorterStem(word), stem.get<std::string>()) << word;
  }
}

TEST(TextFiguresTest, CopiesOfAReferenceAreBest) {
  std::vector<TextPair> pairs = Pairs();
  for (TextPair& pair : pairs) pair.candidate = pair.references.back();
  EXPECT_DOUBLE_EQ(TextFigure(v1::BLEU, pairs).Value(), 1);
  EXPECT_DOUBLE_EQ(TextFigure(v1::ROUGE_L, pairs).Value(), 1);
  EXPECT_GT(TextFigure(v1::METEOR, pairs).Value(), .99);
  for (TextPair& pair : pairs) pair.candidate = "";
  for (const v1::TaskFigure figure : {v1::BLEU, v1::NIST, v1::METEOR, v1::ROUGE_L, v1::CIDER}) {
    EXPECT_EQ(TextFigure(figure, pairs).Value(), 0) << v1::TaskFigure_Name(figure);
  }
}

// Drawing a pair twice is having it twice, where no weights come from all pairs.
TEST(TextFiguresTest, DrawsCountUnits) {
  const std::vector<TextPair> pairs = Pairs();
  std::vector<int32_t> draws(pairs.size(), 0);
  std::vector<TextPair> drawn;
  for (size_t i = 0; i < pairs.size(); i += 3) {
    draws[i] = 2;
    drawn.push_back(pairs[i]);
    drawn.push_back(pairs[i]);
  }
  for (const v1::TaskFigure figure : {v1::BLEU, v1::METEOR, v1::ROUGE_L}) {
    EXPECT_NEAR(TextFigure(figure, pairs).Value(draws), TextFigure(figure, drawn).Value(), 1e-12);
  }
}

TEST(ChoiceFiguresTest, EqualTheFormulasOfTwoLabels) {
  std::mt19937 random(8);
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<Prediction> predictions;
    double count[2][2] = {};
    for (int i = 0; i < 40; ++i) {
      const int right = random() % 3 == 0, predicted = random() % 4 == 0 ? 1 - right : right;
      predictions.push_back({right, predicted});
      ++count[right][predicted];
    }
    const double tn = count[0][0], fp = count[0][1], fn = count[1][0], tp = count[1][1];
    const double matthews =
        (tp * tn - fp * fn) / std::sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn));
    EXPECT_NEAR(MatthewsFigure(predictions).Value(), matthews, 1e-12);
    const double macro = tp / (2 * tp + fp + fn) + tn / (2 * tn + fp + fn);
    EXPECT_NEAR(MacroF1Figure(predictions).Value(), macro, 1e-12);
  }
}

std::vector<Prediction> PredictionsIn(const nlohmann::json& labels) {
  std::vector<Prediction> predictions;
  for (const nlohmann::json& pair : labels) predictions.push_back({pair[0], pair[1]});
  return predictions;
}

TEST(ChoiceFiguresTest, EqualThoseOfScikitLearn) {
  for (const nlohmann::json& labels : Golden()["labels"]) {
    const std::vector<Prediction> predictions = PredictionsIn(labels["predictions"]);
    EXPECT_NEAR(MatthewsFigure(predictions).Value(), labels["MATTHEWS"].get<double>(), 1e-12);
    EXPECT_NEAR(MacroF1Figure(predictions).Value(), labels["MACRO_F1"].get<double>(), 1e-12);
  }
}

TEST(EquationValueTest, ComparesValues) {
  for (const auto& [answer, reference] :
       std::map<std::string, std::string>{{"3 + 4 * 2", "11"},
                                          {"x = ( 3.5 + 4 ) / 2", "3.75"},
                                          {"3.75 = x", "15 / 4"},
                                          {"0 / 5", "0"},
                                          {"- number0 number1", "number0 - number1"},
                                          {"* number1 number0", "* number0 number1"},
                                          {"/ + number0 number1 2", "(number0 + number1) / 2"},
                                          {"-number0 + number1", "number1 - number0"},
                                          {"-5 + 3", "-2"},
                                          {"- 5 + 3", "-2"},
                                          {"- (5 + 3)", "-8"},
                                          {"- 5", "0 - 5"},
                                          {"- 5 -3", "8"},
                                          {"- * -2 -2 / .5 + -.5 1", "3"},
                                          {"+ -number0 number1", "number1 - number0"}}) {
    EXPECT_TRUE(SolvesEquation(answer, reference)) << answer << " " << reference;
  }
  for (const auto& [answer, reference] :
       std::map<std::string, std::string>{{"3 + 4", "8"},
                                          {"number0 - number1", "number1 - number0"},
                                          {"3 +", "3"},
                                          {"+ 3", "3"},
                                          {"- 5 - 3", "2"},
                                          {"", ""},
                                          {"(3", "3"},
                                          {"1 / 0", "1 / 0"},
                                          {"1 / (2 / 0)", "0"},
                                          {"/ 1 / 2 - 3 3", "0"},
                                          {"3 4", "34"},
                                          {"3 + 4 = 7", "7"},
                                          {std::string(1000, '('), "1"},
                                          {std::string(100000, '-'), "1"}}) {
    EXPECT_FALSE(SolvesEquation(answer, reference)) << answer.substr(0, 20) << " " << reference;
  }
}

// With 10000 classes, matrices of 1000 examples would take 800 GB.
TEST(ChoiceFiguresTest, MemoryGrowsInProportionToTheNumberOfClasses) {
  std::vector<Prediction> predictions;
  for (int i = 0; i < 300; ++i) predictions.push_back({i, i % 2 == 0 ? i : i - 1});
  for (const SummedFigure& figure : {MatthewsFigure(predictions), MacroF1Figure(predictions)}) {
    EXPECT_LE(figure.units.at(0).size(), size_t{3 * 300});
  }
  // F1 is 2/3 of the even classes, which get one right and one wrong answer, and 0 of the others.
  EXPECT_NEAR(MacroF1Figure(predictions).Value(), 1.0 / 3, 1e-12);
}

// A task file may hold any text; each of these sides and sums would be a call or a copy.
TEST(EquationValueTest, LongTextsHaveNoValue) {
  std::string sides, sum = "1";
  for (int i = 0; i < 500000; ++i) {
    sides += "x=";
    sum += "+1";
  }
  EXPECT_FALSE(EquationValue(sides + "1").has_value());
  EXPECT_FALSE(EquationValue(sum).has_value());
  EXPECT_FALSE(PrefixNotation(sum).has_value());
}

TEST(EquationValueTest, InfixNotationBecomesPrefixNotation) {
  for (const auto& [infix, prefix] : std::map<std::string, std::string>{
           {"( ( 8 - 3 ) * 2 )", "* - 8 3 2"},
           {"2*(12+5)", "* 2 + 12 5"},
           {"9-3-2.50", "- - 9 3 2.50"},
           {"1+6/3*number0", "+ 1 * / 6 3 number0"},
           {"(800/2)-((2200-(800/2)*5)/4)", "- / 800 2 / - 2200 * / 800 2 5 4"},
           {"-4 + 6", "+ - 0 4 6"},
           {"7", "7"}}) {
    EXPECT_EQ(PrefixNotation(infix), prefix);
    EXPECT_TRUE(SolvesEquation(prefix, infix)) << infix;
  }
  for (const std::string bad : {"", "3 +", "(3", "3 4", "1 / 0", "x = 3", "three + 4 apples"}) {
    EXPECT_EQ(PrefixNotation(bad), std::nullopt) << bad;
  }
}

// A task with free answers in groups, from files of a test.
class GroupedTaskTest : public testing::Test {
 protected:
  GroupedTaskTest() {
    std::filesystem::create_directories(scratch_ / "pairs");
    PutFile(scratch_ / "pairs" / "test.csv", "key,text\na,one\nb,two\na,three\n");
  }
  v1::TaskSpec Spec(const std::string& more = "") {
    return ParseTaskSpec(
               "name: \"pairs\" examples { path: \"test.csv\" format: CSV_FILE header: true } "
               "prompt: \"{key}\" figures: BLEU figures: EXACT_MATCH "
               "free { references_from: \"text\" group_by: \"key\" " +
                   more + " }",
               "test")
        .value();
  }
  ScratchDirectory scratch_;
};

TEST_F(GroupedTaskTest, ExamplesOfAGroupAreOne) {
  ASSERT_OK_AND_ASSIGN(const LoadedTask task, LoadTask(Spec(), scratch_.path(), 0));
  ASSERT_THAT(task.examples, SizeIs(2));
  EXPECT_THAT(task.examples[0].references, ElementsAre("one", "three"));
  EXPECT_THAT(task.examples[1].references, ElementsAre("two"));
}

TEST_F(GroupedTaskTest, EmptyReferencesThatAreMeasuredAreRefused) {
  PutFile(scratch_ / "pairs" / "test.csv", "key,text\na,one\nb,two\na, \n");
  EXPECT_FAILS(LoadTask(Spec(), scratch_.path(), 0).status(), absl::StatusCode::kInvalidArgument,
               "test.csv:4", "\"text\": got an empty text, which has no bleu");
  v1::TaskSpec spec = Spec();
  spec.clear_figures();
  spec.add_figures(v1::EXACT_MATCH);
  EXPECT_OK(LoadTask(spec, scratch_.path(), 0).status());
  spec.add_figures(v1::ANSWER_LOSS);
  EXPECT_FAILS(LoadTask(spec, scratch_.path(), 0).status(), absl::StatusCode::kInvalidArgument,
               "test.csv:4", "which has no answer_loss");
}

// The answer of a search is at least as likely as that of greedy decoding, and stops where that
// stops.
TEST_F(GroupedTaskTest, AnswersMayComeFromABeamSearch) {
  const TextCodec codec = ByteCodec();
  double narrow = 0, wide = 0;
  for (const int beams : {1, 6}) {
    const std::string more = "max_tokens: 6 length_penalty: 0 num_beams: " + std::to_string(beams);
    ASSERT_OK_AND_ASSIGN(const LoadedTask task, LoadTask(Spec(more), scratch_.path(), 0));
    const DemonstrationSet shots(task, 0, 0, codec);
    for (int64_t example = 0; example < 2; ++example) {
      FakeDecoder decoder(257, 100);
      ASSERT_OK_AND_ASSIGN(const ExampleAnswer answer,
                           AnswerExample(task, example, {shots, codec, 100, decoder, decoder}));
      std::vector<int32_t> context =
          codec.encode(task.examples[static_cast<size_t>(example)].prompts[0]);
      context.insert(context.begin(), codec.eos_id);
      (beams == 1 ? narrow : wide) += SlowScore(context, codec.encode(answer.text), 257);
      EXPECT_LE(answer.text.size(), 6u);
    }
  }
  EXPECT_GE(wide, narrow);
}

TEST_F(GroupedTaskTest, BeamsOfASearchStepTogether) {
  const TextCodec codec = ByteCodec();
  ASSERT_OK_AND_ASSIGN(const LoadedTask task,
                       LoadTask(Spec("max_tokens: 6 num_beams: 4"), scratch_.path(), 0));
  const DemonstrationSet shots(task, 0, 0, codec);
  const auto answer = [&](const StepTogetherFunction& step_together) {
    FakeDecoder decoder(257, 100);
    return AnswerExample(task, 0,
                         {.shots = shots,
                          .codec = codec,
                          .context_length = 100,
                          .decoder = decoder,
                          .unconditional = decoder,
                          .step_together = step_together})
        .value();
  };
  size_t widest = 0;
  const ExampleAnswer together =
      answer([&](std::span<Decoder* const> decoders, std::span<const int32_t> tokens) {
        widest = std::max(widest, decoders.size());
        std::vector<std::vector<float>> logits;
        for (size_t i = 0; i < decoders.size(); ++i) {
          logits.push_back(decoders[i]->Step(tokens[i]).value());
        }
        return logits;
      });
  EXPECT_EQ(widest, 4u);
  EXPECT_EQ(together, answer(nullptr));
}

TEST_F(GroupedTaskTest, SpecificationsOfSearchesAreChecked) {
  for (const std::string more :
       {"num_beams: 33", "num_beams: -1", "length_penalty: -1", "no_repeat_ngram: -1"}) {
    const std::string text =
        "name: \"pairs\" examples { path: \"test.csv\" format: CSV_FILE header: true } "
        "prompt: \"{key}\" figures: BLEU free { references_from: \"text\" " +
        more + " }";
    EXPECT_FAILS(ParseTaskSpec(text, "test").status(), absl::StatusCode::kInvalidArgument,
                 more.substr(0, more.find(':')), "expected");
  }
}

TEST_F(GroupedTaskTest, ComparisonsPairAnswersToTheSameExample) {
  LoadedTask task;
  task.spec = Spec();
  std::vector<ExampleAnswer> baseline, model;
  for (int64_t i = 0; i < 60; ++i) {
    task.examples.emplace_back().references = {"the right answer is this one"};
    const auto answer = [&](bool right) {
      ExampleAnswer one;
      one.example = i;
      one.text = right ? "the right answer is this one" : "nothing like it";
      return one;
    };
    baseline.push_back(answer(i % 2 == 0));
    model.push_back(answer(i % 2 == 0 || i % 3 == 0));
    if (i == 0) model.back() = answer(false);
  }
  const std::vector<v1::TaskComparison> comparisons = CompareAnswers(task, baseline, model);
  ASSERT_THAT(comparisons, SizeIs(2));
  const v1::TaskComparison& exact = comparisons[1];
  EXPECT_EQ(exact.metric(), "exact_match");
  EXPECT_EQ(exact.num_examples(), 60);
  EXPECT_EQ(exact.num_only_model(), 10);
  EXPECT_EQ(exact.num_only_baseline(), 1);
  EXPECT_NEAR(exact.difference(), 9. / 60, 1e-12);
  EXPECT_GT(exact.interval().low(), 0);
  EXPECT_LT(exact.interval().high(), .3);
  EXPECT_GT(comparisons[0].difference(), 0);
  EXPECT_EQ(comparisons[0].num_only_model(), 0);
  for (const v1::TaskComparison& same : CompareAnswers(task, model, model)) {
    EXPECT_EQ(same.interval().low(), 0);
    EXPECT_EQ(same.interval().high(), 0);
  }
}

}  // namespace text_figures_test
}  // namespace braid
