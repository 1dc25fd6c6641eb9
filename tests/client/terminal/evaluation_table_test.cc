#include "client/terminal/evaluation_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace braid {
namespace evaluation_table_test {

using testing::HasSubstr;
using testing::Not;

v1::Interval Around(double value, double half) {
  v1::Interval interval;
  interval.set_low(value - half);
  interval.set_high(value + half);
  return interval;
}

v1::DomainEvaluation Domain(const std::string& name, double perplexity, double half) {
  v1::DomainEvaluation domain;
  domain.set_domain(name);
  domain.set_num_tokens(2000);
  domain.set_num_tokens_after_first_segment(1500);
  domain.set_num_bytes_after_first_segment(6000);
  domain.set_perplexity(perplexity + 1);
  domain.set_perplexity_after_first_segment(perplexity);
  domain.set_bits_per_byte_after_first_segment(perplexity / 50);
  *domain.mutable_perplexity_interval() = Around(perplexity + 1, half);
  *domain.mutable_perplexity_after_first_segment_interval() = Around(perplexity, half);
  *domain.mutable_bits_per_byte_after_first_segment_interval() = Around(perplexity / 50, half / 50);
  return domain;
}

v1::EvaluationResult Models(int count, const std::vector<std::string>& domains) {
  v1::EvaluationResult result;
  result.set_confidence(0.95);
  for (int i = 0; i < count; ++i) {
    v1::Evaluation* evaluation = result.add_evaluations();
    evaluation->set_model("/home/runs/run-00000" + std::to_string(i + 1));
    evaluation->set_step(400);
    evaluation->set_moe(i > 0);
    evaluation->set_routing(i % 2 == 0 ? v1::SEGMENT_ROUTING : v1::PROMPT_ROUTING);
    evaluation->set_first_segment_length(32);
    evaluation->set_window_length(128);
    for (size_t d = 0; d < domains.size(); ++d) {
      *evaluation->add_domains() = Domain(domains[d], 100.25 - i + 7 * static_cast<double>(d), 4.5);
    }
    *evaluation->mutable_total() = Domain("all", 90.5 - i, 2.25);
    if (i == 0) continue;
    v1::EvaluationComparison* comparison = result.add_comparisons();
    comparison->set_evaluation(i);
    for (size_t d = 0; d <= domains.size(); ++d) {
      v1::DomainDifference* difference = comparison->add_domains();
      difference->set_loss_difference(0.01 * i);
      *difference->mutable_loss_difference_interval() = Around(0.01 * i, 0.015);
    }
  }
  return result;
}

std::string Print(const v1::EvaluationResult& result, int width = 80,
                  EvaluationMeasure measure = EvaluationMeasure::kPerplexity) {
  std::ostringstream out;
  PrintEvaluation(result, measure, width, out);
  return out.str();
}

TEST(EvaluationTableTest, ADivergedModelHasAPerplexityWithAnExponent) {
  v1::EvaluationResult result = Models(1, {});
  *result.mutable_evaluations(0)->mutable_total() = Domain("all", 5.1847e21, 3e20);
  EXPECT_THAT(Print(result), HasSubstr("5.185e+21 ±3e+20"));
}

size_t Widest(const std::string& text) {
  size_t widest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    widest = std::max<size_t>(
        widest, std::ranges::count_if(line, [](char c) { return (c & 0xC0) != 0x80; }));
  }
  return widest;
}

TEST(EvaluationTableTest, ShowsAllMeasuresOfOneModel) {
  EXPECT_EQ(Print(Models(1, {"news"})),
            "run-000001, step 400, dense\n"
            "\n"
            "DOMAIN  TOKENS  PERPLEXITY         BITS/BYTE          WITH 1ST SEGMENT\n"
            "news     1,500       100.2 ±4.5        2.005 ±0.090              101.2 ±4.5\n"
            "all      1,500       90.50 ±2.25       1.810 ±0.045              91.50 ±2.25\n"
            "\n"
            "windows of 128 tokens; main figures exclude the first 32 of each\n"
            "±: half of the 95 % confidence interval, by bootstrap over windows\n");
}

TEST(EvaluationTableTest, NamesTheWindowsOfEachModelWhereTheyDiffer) {
  v1::EvaluationResult result = Models(2, {"news"});
  result.mutable_evaluations(0)->set_first_segment_length(0);
  result.mutable_evaluations(1)->set_window_length(512);
  EXPECT_THAT(Print(result), HasSubstr("\nA: windows of 128 tokens\n"
                                       "B: windows of 512 tokens; main figures exclude the first "
                                       "32 of each\n"));
}

TEST(EvaluationTableTest, NamesNoGainWhereWindowsHaveOneSegment) {
  v1::EvaluationResult result = Models(2, {"news"});
  for (v1::Evaluation& evaluation : *result.mutable_evaluations()) {
    evaluation.mutable_total()->set_num_tokens_after_first_segment(0);
  }
  const std::string text = Print(result);
  const std::string row = text.substr(text.find("gain, nats/token"));
  EXPECT_THAT(row.substr(0, row.find('\n')), testing::ContainsRegex("gain, nats/token +-$"));
  EXPECT_THAT(text, HasSubstr("main figures exclude the first 32 of each,\n"
                              "which leaves no token: see WITH 1ST SEGMENT\n"));
}

TEST(EvaluationTableTest, OneModelWithoutTokensAfterFirstSegmentsHasNoGain) {
  v1::EvaluationResult result = Models(3, {"news"});
  result.mutable_evaluations(1)->mutable_total()->set_num_tokens_after_first_segment(0);
  result.mutable_comparisons(0)->mutable_domains(1)->clear_loss_difference();
  const std::string text = Print(result);
  const std::string row = text.substr(text.find("gain, nats/token"));
  EXPECT_THAT(row.substr(0, row.find('\n')), testing::ContainsRegex(" - +0.0200 "));
}

TEST(EvaluationTableTest, NamesModelsWhoseWindowsAreOneSegment) {
  v1::EvaluationResult result = Models(3, {"news"});
  EXPECT_THAT(Print(result), Not(HasSubstr("one segment")));
  result.mutable_evaluations(1)->set_routes_on_itself(true);
  result.mutable_evaluations(2)->set_routes_on_itself(true);
  EXPECT_THAT(Print(result), HasSubstr("\nB, C: each window is one segment, which routes on the "
                                       "tokens that it\npredicts, so the losses are too low\n"));
  result = Models(1, {"news"});
  result.mutable_evaluations(0)->set_routes_on_itself(true);
  EXPECT_THAT(Print(result), HasSubstr("\neach window is one segment, which routes on"));
}

TEST(EvaluationTableTest, NamesNoNumberOfExpertsThatVaries) {
  v1::EvaluationResult result = Models(2, {"news"});
  result.mutable_evaluations(1)->set_active_experts(2);
  EXPECT_THAT(Print(result), HasSubstr("experts, 2 active experts\n"));
  result.mutable_evaluations(1)->set_varying_experts(true);
  EXPECT_THAT(Print(result), HasSubstr("experts, a varying number of active experts\n"));
}

TEST(EvaluationTableTest, MentionsFirstSegmentsOnlyWhereFiguresExcludeThem) {
  for (const int models : {1, 2}) {
    v1::EvaluationResult result = Models(models, {"validation"});
    for (v1::Evaluation& evaluation : *result.mutable_evaluations()) {
      evaluation.set_first_segment_length(0);
    }
    const std::string text = Print(result);
    EXPECT_THAT(text, HasSubstr("\nwindows of 128 tokens\n"));
    EXPECT_THAT(text, Not(testing::AnyOf(HasSubstr("WITH 1ST SEGMENT"), HasSubstr("with 1st"))));
  }
}

TEST(EvaluationTableTest, ComparesDenseAndExpertModels) {
  EXPECT_EQ(Print(Models(3, {"news"})),
            "A  run-000001, step 400, dense\n"
            "B  run-000002, step 400, experts, prompt routing\n"
            "C  run-000003, step 400, experts, segment routing\n"
            "\n"
            "PERPLEXITY        TOKENS      A               B                C\n"
            "news               1,500  100.2 ±4.5      99.25 ±4.50      98.25 ±4.50*\n"
            "all                1,500  90.50 ±2.25     89.50 ±2.25      88.50 ±2.25*\n"
            "bits per byte             1.810 ±0.045    1.790 ±0.045     1.770 ±0.045*\n"
            "with 1st segment          91.50 ±2.25     90.50 ±2.25      89.50 ±2.25\n"
            "gain, nats/token                         0.0100 ±0.0150   0.0200 ±0.0150*\n"
            "\n"
            "windows of 128 tokens; main figures exclude the first 32 of each\n"
            "±: half of the 95 % confidence interval, by bootstrap over windows\n"
            "*: differs from A: the interval of the paired difference excludes 0\n");
}

TEST(EvaluationTableTest, NamesFixedWeights) {
  v1::EvaluationResult result = Models(4, {"news"});
  result.mutable_evaluations(0)->set_moe(true);
  for (v1::Evaluation& evaluation : *result.mutable_evaluations()) {
    evaluation.set_model("/home/runs/run-000001");
  }
  for (const auto weights : {v1::AVERAGE_WEIGHTS, v1::UNIFORM_WEIGHTS, v1::NEXT_DOMAIN_WEIGHTS}) {
    result.mutable_evaluations(weights)->clear_routing();
    result.mutable_evaluations(weights)->set_fixed_weights(weights);
  }
  const std::string text = Print(result);
  EXPECT_THAT(text, HasSubstr("A  run-000001, step 400, experts, segment routing\n"
                              "B  run-000001, step 400, experts, average weights\n"
                              "C  run-000001, step 400, experts, uniform weights\n"
                              "D  run-000001, step 400, experts, the next domain's weights\n"));
  EXPECT_LE(Widest(text), 80u) << text;
}

TEST(EvaluationTableTest, ManyModelsContinueInBlocksWithinTheWidth) {
  const std::string text =
      Print(Models(11, {"news", "a domain with a very long name, one", "書籍", "code"}));
  EXPECT_LE(Widest(text), 80u) << text;
  size_t headers = 0;
  for (size_t at = text.find("\nPERPLEXITY"); at != text.npos;
       at = text.find("\nPERPLEXITY", at + 1))
    ++headers;
  EXPECT_EQ(headers, 4u) << text;
  EXPECT_THAT(text, HasSubstr("K  run-0000011"));
  EXPECT_THAT(text, HasSubstr("a domain w~name, one"));
  EXPECT_EQ(Widest(Print(Models(6, {"news"}), 40)) <= 80u, true);
}

TEST(EvaluationTableTest, ShowsOtherMeasures) {
  const v1::EvaluationResult result = Models(2, {"news"});
  const std::string bits = Print(result, 80, EvaluationMeasure::kBitsPerByte);
  EXPECT_THAT(bits, HasSubstr("BITS PER BYTE"));
  EXPECT_THAT(bits, HasSubstr("news               1,500  2.005"));
  EXPECT_THAT(bits, HasSubstr("\nperplexity "));
  const std::string first = Print(result, 80, EvaluationMeasure::kWithFirstSegment);
  EXPECT_THAT(first, HasSubstr("news               1,500  101.2"));
}

TEST(EvaluationTableTest, OmitsUnknownFigures) {
  v1::EvaluationResult result = Models(2, {"news"});
  for (v1::Evaluation& evaluation : *result.mutable_evaluations()) {
    evaluation.mutable_domains(0)->clear_perplexity_after_first_segment_interval();
    evaluation.mutable_domains(0)->set_num_tokens_after_first_segment(0);
  }
  result.mutable_comparisons(0)->set_paired_by_document(true);
  for (v1::DomainDifference& difference : *result.mutable_comparisons(0)->mutable_domains()) {
    difference.clear_loss_difference();
    difference.clear_loss_difference_interval();
    difference.set_bits_per_byte_difference(-0.5);
  }
  const std::string text = Print(result);
  EXPECT_THAT(text, HasSubstr("gain, bits/byte"));
  EXPECT_THAT(text, HasSubstr("-0.5000\n"));
  EXPECT_THAT(text, Not(HasSubstr("0.0100")));
  EXPECT_THAT(text, HasSubstr("news                   0      -"));
  EXPECT_THAT(text, HasSubstr("compared by document"));
}

TEST(EvaluationTableTest, ShowsPathsOfRunsWithTheSameName) {
  v1::EvaluationResult result = Models(2, {"news"});
  result.mutable_evaluations(0)->set_model("/a/run-000001");
  result.mutable_evaluations(1)->set_model("/b/run-000001");
  EXPECT_THAT(Print(result), HasSubstr("A  /a/run-000001,"));
  result.mutable_evaluations(0)->set_model("/a/run-000007/checkpoints/step-00000400");
  EXPECT_THAT(Print(result), HasSubstr("A  run-000007/step-00000400,"));
}

}  // namespace evaluation_table_test
}  // namespace braid
