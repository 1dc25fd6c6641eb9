#include "client/terminal/explanation_tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "braid/v1/pipeline.pb.h"
#include "client/terminal/stage_figures.h"

namespace braid {
namespace explanation_tables_test {

using testing::HasSubstr;
using testing::Not;

TEST(OneLineTest, RemovesControlCharacters) {
  EXPECT_EQ(OneLine("a\n\n b\tc\r\n"), "a b c");
  EXPECT_EQ(OneLine("red \x1b[31m"), "red [31m");
  EXPECT_EQ(OneLine("\xC3\xA4 \xC2\x9B"
                    "31m"),
            "\xC3\xA4  31m");
  EXPECT_EQ(OneLine(std::string("a\0b", 3)), "a b");
  EXPECT_EQ(OneLine(""), "");
}

TEST(ExplanationTablesTest, ShowsSpansAsSlices) {
  v1::InstanceExplanation instance;
  instance.set_instance(7);
  instance.set_num_tokens(129);
  v1::DocumentSpan* span = instance.add_spans();
  span->set_document("doc\n1");
  span->set_length(29);
  span = instance.add_spans();
  span->set_document("doc2");
  span->set_instance_offset(29);
  span->set_document_offset(3);
  span->set_length(100);
  span->set_similarity_to_previous(0.25);
  std::ostringstream out;
  PrintInstance(instance, {3, 20}, out);
  EXPECT_THAT(out.str(), HasSubstr("instance 7  129 tokens  in steps 3, 20"));
  EXPECT_THAT(out.str(), HasSubstr("0:29"));
  EXPECT_THAT(out.str(), HasSubstr("29:129"));
  EXPECT_THAT(out.str(), HasSubstr("3:103"));
  EXPECT_THAT(out.str(), HasSubstr("0.250"));
  EXPECT_THAT(out.str(), HasSubstr("doc 1"));
}

TEST(ExplanationTablesTest, DescribesEveryOutcome) {
  const auto printed = [](v1::DocumentFate fate) {
    v1::ExplainDocumentResponse document;
    document.set_document("d");
    document.set_fate(fate);
    document.set_counterpart("other");
    document.set_jaccard(0.9);
    document.set_reject_reason("too long");
    std::ostringstream out;
    PrintDocument(document, {}, "", out);
    return out.str();
  };
  EXPECT_THAT(printed(v1::DOCUMENT_TRAINED_ON), HasSubstr("trained on"));
  EXPECT_THAT(printed(v1::DOCUMENT_DUPLICATE), HasSubstr("near-duplicate of other"));
  EXPECT_THAT(printed(v1::DOCUMENT_DUPLICATE), HasSubstr("Jaccard 0.900"));
  EXPECT_THAT(printed(v1::DOCUMENT_HELD_OUT), HasSubstr("held out"));
  EXPECT_THAT(printed(v1::DOCUMENT_OVERLAPS_HELD_OUT), HasSubstr("held-out other"));
  EXPECT_THAT(printed(v1::DOCUMENT_REJECTED), HasSubstr("rejected: too long"));
  v1::ExplainDocumentResponse document;
  document.set_evaluation_text("quiz.jsonl:2");
  document.set_shared_words("which of these");
  const auto described = [&document](v1::DocumentFate fate) {
    document.set_fate(fate);
    std::ostringstream out;
    PrintDocument(document, {}, "", out);
    return out.str();
  };
  EXPECT_THAT(described(v1::DOCUMENT_CONTAMINATED), HasSubstr("quiz.jsonl:2 (\"which of these\")"));
  EXPECT_THAT(described(v1::DOCUMENT_TRAINED_ON),
              HasSubstr("although it shares text with quiz.jsonl:2"));
  document.set_counterpart("other");
  document.set_containment(0.75);
  EXPECT_THAT(described(v1::DOCUMENT_OVERLAPS_HELD_OUT), HasSubstr("75.0 % of the 13-word runs"));
}

TEST(ExplanationTablesTest, TheFateIsThatInTheTrainingWhoseStepsAreShown) {
  v1::ExplainDocumentResponse document;
  document.set_fate(v1::DOCUMENT_TRAINED_ON);
  for (const int64_t instance : {3, 4}) document.add_spans()->set_instance(instance);
  const auto printed = [&document](const std::vector<std::vector<int64_t>>& steps,
                                   const std::string& run) {
    std::ostringstream out;
    PrintDocument(document, steps, run, out);
    return out.str();
  };
  EXPECT_THAT(printed({{}, {7}}, "run-000001"), HasSubstr(" trained on\n"));
  EXPECT_THAT(printed({{}, {}}, "run-000001"),
              HasSubstr(" in the dataset; not trained on by run-000001\n"));
  EXPECT_THAT(printed({{}, {}}, ""), HasSubstr(" in the dataset; in none of the planned steps\n"));
  EXPECT_THAT(printed({}, ""), HasSubstr(" trained on\n")) << "no training is described";
  document.set_evaluation_text("quiz.jsonl:2");
  document.set_shared_words("which of these");
  EXPECT_THAT(printed({{}, {}}, "run-000001"),
              HasSubstr(" in the dataset, although it shares text with quiz.jsonl:2 (\"which of "
                        "these\"); not trained on by run-000001\n"));
}

TEST(StageFiguresTest, OmitsUnknownFiguresOfAStage) {
  v1::StageProgress stage;
  stage.set_stage("ingest");
  EXPECT_EQ(StageFigures(stage), "");
  stage.set_eta_seconds(72);
  stage.set_documents_per_second(12345);
  stage.set_bytes_per_second(4.5e6);
  stage.set_resident_bytes(512 << 20);
  stage.set_rejects(3);
  stage.set_chunk(3);
  stage.set_num_chunks(10);
  EXPECT_EQ(StageFigures(stage),
            "ETA 1:12  12.3k documents/s  4.5 MB/s  512 MiB  3 rejected  chunk 3/10");
  stage.set_num_chunks(0);
  EXPECT_THAT(StageFigures(stage), HasSubstr("chunk 3"));
  stage.set_stage("embed");
  EXPECT_THAT(StageFigures(stage), Not(HasSubstr("rejected")));
}

}  // namespace explanation_tables_test
}  // namespace braid
