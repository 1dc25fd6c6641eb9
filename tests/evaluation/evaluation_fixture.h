// One dense model and one with experts, and how tests evaluate them.
#ifndef BRAID_TESTS_EVALUATION_EVALUATION_FIXTURE_H_
#define BRAID_TESTS_EVALUATION_EVALUATION_FIXTURE_H_

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <vector>

#include "cli/corpus_documents.h"
#include "evaluation/perplexity.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/trainer/tiny_run.h"
#include "tests/trainer/tiny_text_run.h"

namespace braid {

inline constexpr char kTinySentence[] = "the cat sat on the mat and the dog ran after the cat. ";

// The models are trained once for all tests of a suite.
class EvaluationFixture : public testing::Test {
 protected:
  struct Models {
    std::filesystem::path tokenizer = NewTokenizer(kTinySentence, 280);
    std::filesystem::path dataset = NewTextDataset(tokenizer);
    std::filesystem::path dense = NewTextRun(dataset, 1).root();
    std::filesystem::path experts = NewTextRun(dataset, 4).root();
  };

  static void SetUpTestSuite() { models_ = new Models; }
  static void TearDownTestSuite() { delete models_; }

  static v1::EvaluateRequest Request(std::initializer_list<std::filesystem::path> models) {
    v1::EvaluateRequest request;
    for (const std::filesystem::path& model : models) request.add_models(model.string());
    request.set_num_threads(1);
    return request;
  }

  static std::filesystem::path Checkpoint(const std::filesystem::path& run) {
    return run / "checkpoints/step-00000002";
  }

  absl::Status Run(const v1::EvaluateRequest& request) {
    events_.clear();
    return Evaluate(request, ReadCorpusDocuments,
                    [&](const v1::EvaluateEvent& event) { events_.push_back(event); });
  }

  v1::EvaluationResult Result(const v1::EvaluateRequest& request) {
    const absl::Status status = Run(request);
    EXPECT_TRUE(status.ok()) << status;
    return status.ok() ? events_.back().result() : v1::EvaluationResult();
  }

  void ExpectError(const v1::EvaluateRequest& request, absl::StatusCode code,
                   const std::string& part) {
    const absl::Status status = Run(request);
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr(part));
  }

  // Returns three documents of one domain, over several windows.
  static std::vector<std::string> Documents() {
    return {"the cat sat on the mat and the dog ran after the cat, naïve as it was.\nThe end",
            "a mat",
            " 12 dogs ran after 34 cats; then the mat was empty and the cats sat on the dogs"};
  }

  static std::filesystem::path WriteDocuments() {
    const std::filesystem::path path = NewDirectory("text") / "news.jsonl";
    std::ofstream out(path);
    for (std::string text : Documents()) {
      for (size_t at = text.find('\n'); at != text.npos; at = text.find('\n', at + 2)) {
        text.replace(at, 1, "\\n");
      }
      out << "{\"text\":\"" << text << "\"}\n";
    }
    return path;
  }

  static inline Models* models_ = nullptr;
  std::vector<v1::EvaluateEvent> events_;
};

}  // namespace braid

#endif  // BRAID_TESTS_EVALUATION_EVALUATION_FIXTURE_H_
