#include "formats/supervised_spans.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace supervised_spans_test {

using absl::StatusCode;
using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;

class SupervisedSpansTest : public testing::Test {
 protected:
  // Instances of 10 tokens.
  void SetUp() override {
    auto writer = IndexedDatasetWriter::Create(scratch_ / "instances", 100).value();
    for (int i = 0; i < kInstances; ++i) {
      ASSERT_OK(writer->AddSequence(std::vector<int32_t>(kLength, 7)));
      writer->EndDocument();
    }
    ASSERT_OK(writer->Commit().status());
  }

  IndexedDataset Instances() { return IndexedDataset::Open(scratch_ / "instances").value(); }

  // Writes rows without any check and returns what reading them reports.
  absl::Status StatusOfRows(const std::vector<SupervisedSpan>& spans) {
    std::vector<int32_t> values;
    for (const SupervisedSpan& span : spans) {
      values.insert(values.end(), {span.instance, span.begin, span.answer_begin, span.end});
    }
    const std::array<int64_t, 2> shape = {static_cast<int64_t>(spans.size()), 4};
    EXPECT_OK(WriteNpy<int32_t>(scratch_ / kSpansName, shape, values));
    return ReadSpans(scratch_ / kSpansName, Instances()).status();
  }

  void ExpectRefused(const std::vector<SupervisedSpan>& spans, const std::string& message) {
    const absl::Status read = StatusOfRows(spans);
    EXPECT_EQ(read.code(), StatusCode::kDataLoss);
    EXPECT_THAT(std::string(read.message()),
                AllOf(HasSubstr((scratch_ / kSpansName).string()), HasSubstr(message)));
    const absl::Status written = WriteSpans(scratch_ / kSpansName, spans, Instances()).status();
    EXPECT_EQ(written.code(), StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(written.message()), HasSubstr(message));
  }

  static constexpr int kInstances = 3;
  static constexpr int kLength = 10;
  ScratchDirectory scratch_;
};

TEST_F(SupervisedSpansTest, RoundTripsAndCountsExamples) {
  const std::vector<SupervisedSpan> spans = {
      {0, 0, 2, 4}, {0, 0, 6, 7}, {0, 7, 8, 10}, {2, 0, 1, 10}};
  ASSERT_OK_AND_ASSIGN(const FileSummary written,
                       WriteSpans(scratch_ / kSpansName, spans, Instances()));
  EXPECT_EQ(written.name, kSpansName);
  ASSERT_OK_AND_ASSIGN(const std::vector<SupervisedSpan> read,
                       ReadSpans(scratch_ / kSpansName, Instances()));
  EXPECT_EQ(read, spans);
  EXPECT_EQ(CountExamples(read), 3);
  EXPECT_EQ(CountExamples({}), 0);
}

TEST_F(SupervisedSpansTest, RefusesEachBrokenRule) {
  ExpectRefused({}, "got no rows");
  ExpectRefused({{3, 0, 1, 2}}, "row 0: got [3, 0, 1, 2], expected an instance below 3");
  ExpectRefused({{-1, 0, 1, 2}}, "an instance below 3");
  ExpectRefused({{0, -1, 1, 2}}, "0 <= begin < answer_begin < end <= 10");
  ExpectRefused({{0, 1, 1, 2}}, "0 <= begin < answer_begin");
  ExpectRefused({{0, 0, 2, 2}}, "0 <= begin < answer_begin");
  ExpectRefused({{0, 0, 2, 11}}, "0 <= begin < answer_begin");
  ExpectRefused({{1, 0, 1, 2}, {0, 0, 1, 2}}, "row 1: got [0, 0, 1, 2], expected a row after");
  ExpectRefused({{0, 4, 5, 6}, {0, 0, 1, 2}}, "a row after [0, 4, 5, 6]");
  ExpectRefused({{0, 0, 1, 4}, {0, 3, 5, 6}}, "a row after [0, 0, 1, 4]");
  ExpectRefused({{0, 0, 1, 4}, {0, 0, 3, 6}}, "a row after [0, 0, 1, 4]");
  ExpectRefused({{0, 0, 1, 4}, {0, 0, 1, 4}}, "a row after [0, 0, 1, 4]");
}

TEST_F(SupervisedSpansTest, RefusesOtherShapes) {
  const std::array<int64_t, 2> narrow = {1, 3};
  ASSERT_OK(WriteNpy<int32_t>(scratch_ / kSpansName, narrow, std::array{0, 0, 1}));
  EXPECT_THAT(std::string(ReadSpans(scratch_ / kSpansName, Instances()).status().message()),
              HasSubstr("rows of 3, expected [n, 4]"));
  const std::array<int64_t, 1> flat = {4};
  ASSERT_OK(WriteNpy<int32_t>(scratch_ / kSpansName, flat, std::array{0, 0, 1, 2}));
  EXPECT_EQ(ReadSpans(scratch_ / kSpansName, Instances()).status().code(), StatusCode::kDataLoss);
}

// Labels every token with its example and answer, one row after another, and accepts rows that
// label no token twice, fill examples from left to right and have a token before each answer.
bool IsValidByLabels(const std::vector<SupervisedSpan>& spans, int instances, int length) {
  std::vector<int> used(static_cast<size_t>(instances * length), 0);
  int64_t reached = -1;  // the last token of the previous row
  for (size_t i = 0; i < spans.size(); ++i) {
    const SupervisedSpan& span = spans[i];
    if (span.instance < 0 || span.instance >= instances || span.begin < 0) return false;
    if (span.answer_begin < span.begin + 1 || span.end < span.answer_begin + 1) return false;
    if (span.end > length) return false;
    const bool same =
        i > 0 && spans[i - 1].instance == span.instance && spans[i - 1].begin == span.begin;
    const int64_t first = int64_t{span.instance} * length + (same ? span.answer_begin : span.begin);
    if (first <= reached) return false;
    reached = int64_t{span.instance} * length + span.end - 1;
    for (int64_t t = first; t <= reached; ++t) {
      if (used[static_cast<size_t>(t)]++ != 0) return false;
    }
  }
  return !spans.empty();
}

TEST_F(SupervisedSpansTest, AgreesWithLabelsOfTokensOnRandomRows) {
  std::mt19937 random(1);
  int accepted = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::vector<SupervisedSpan> spans;
    const auto draw = [&](int n) {
      return static_cast<int32_t>(random() % static_cast<unsigned>(n));
    };
    for (int i = 0, n = 1 + draw(2); i < n; ++i) {
      const int32_t begin = draw(kLength);
      spans.push_back({draw(kInstances), i > 0 && draw(2) == 0 ? spans[0].begin : begin,
                       begin + draw(4), begin + 1 + draw(6)});
    }
    const bool valid = IsValidByLabels(spans, kInstances, kLength);
    EXPECT_EQ(StatusOfRows(spans).ok(), valid) << trial;
    accepted += valid ? 1 : 0;
  }
  EXPECT_GT(accepted, 10);
  EXPECT_LT(accepted, 290);
}

}  // namespace supervised_spans_test
}  // namespace braid
