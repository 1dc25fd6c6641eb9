#include "server/access/request_paths.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "braid/v1/conversion.pb.h"
#include "braid/v1/generation.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/report.pb.h"
#include "braid/v1/training.pb.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/served_methods.h"

namespace braid {
namespace request_paths_test {

using absl::StatusCode;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

void ExpectClassified(const Descriptor& type, std::set<const Descriptor*>* seen) {
  if (!seen->insert(&type).second) return;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (field.message_type() != nullptr) ExpectClassified(*field.message_type(), seen);
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) continue;
    EXPECT_NE(UseOf(field), FieldUse::kNotClassified)
        << field.full_name() << ": say in request_paths.cc whether it is a path of the server";
  }
}

TEST(RequestFieldsTest, EveryStringOfEveryRequestIsClassified) {
  std::set<const Descriptor*> seen;
  for (const auto* const method : ServedMethods()) ExpectClassified(*method->input_type(), &seen);
  EXPECT_GT(seen.size(), 20U);
}

class RequestPathsTest : public ::testing::Test {
 protected:
  RequestPathsTest() : roots_(PathRoots::Create({root_.path()}, "").value()) {}

  ScratchDirectory root_;
  PathRoots roots_;
};

TEST_F(RequestPathsTest, EachFieldThatNamesAFileIsChecked) {
  const std::string in = (root_ / "x").string();
  const auto refused = [&](const google::protobuf::Message& request, const char* field) {
    EXPECT_FAILS(CheckPaths(request, roots_), StatusCode::kPermissionDenied, field);
  };
  v1::SubmitCorpusRequest corpus;
  corpus.mutable_spec()->add_paths(in);
  EXPECT_OK(CheckPaths(corpus, roots_));
  corpus.mutable_spec()->add_paths("/etc/passwd");
  refused(corpus, "paths: /etc/passwd");
  corpus.mutable_spec()->clear_paths();
  corpus.mutable_spec()->mutable_decontaminate()->add_paths("/etc/passwd");
  refused(corpus, "paths: /etc/passwd");
  corpus.mutable_spec()->clear_decontaminate();
  corpus.mutable_spec()->mutable_tokenizer()->set_model_path("/etc/x");
  refused(corpus, "model_path");
  corpus.mutable_spec()->mutable_tokenizer()->clear_model_path();
  corpus.mutable_spec()->mutable_embedder()->set_model_dir("/etc");
  refused(corpus, "model_dir");
  v1::DescribeCorpusRequest description;
  description.add_paths(in);
  EXPECT_OK(CheckPaths(description, roots_));
  description.add_paths("/etc/passwd");
  refused(description, "paths: /etc/passwd");
  v1::LaunchRunRequest run;
  run.mutable_spec()->set_dataset_dir("/etc");
  refused(run, "dataset_dir");
  run.mutable_spec()->set_dataset_dir(in);
  run.mutable_spec()->set_init_from("/etc");
  refused(run, "init_from");
  run.mutable_spec()->set_init_from("run-000001");
  EXPECT_OK(CheckPaths(run, roots_));
  v1::ReportRequest report;
  report.add_runs("run-000001");
  report.add_runs("/etc");
  refused(report, "runs");
  v1::ExportRequest out;
  out.set_model("run-000001");
  out.set_output_dir("/etc/new");
  refused(out, "output_dir");
  v1::GenerateRequest average;
  for (const std::string& inside : {std::string("run-000001@ema"), in + "@ema"}) {
    average.set_model(inside);
    EXPECT_OK(CheckPaths(average, roots_));
  }
  average.set_model("/etc@ema");
  refused(average, "model");
  v1::LaunchRunRequest branch;
  branch.mutable_spec()->set_branch_from("run-000001@10");
  EXPECT_TRUE(CheckPaths(branch, roots_).ok());
  branch.mutable_spec()->set_branch_from(in + "@10");
  EXPECT_TRUE(CheckPaths(branch, roots_).ok());
  for (const char* const outside : {"/etc@10", "/etc"}) {
    branch.mutable_spec()->set_branch_from(outside);
    refused(branch, "branch_from");
  }
  v1::LaunchRunRequest mixture;
  mixture.mutable_spec()->add_datasets()->set_dataset("/etc");
  refused(mixture, "dataset");
  v1::ConvertRequest convert;
  convert.set_model("run-000001");
  convert.set_output_dir("/etc/new");
  refused(convert, "output_dir");
  v1::ImportRequest import;
  import.set_source_dir(in);
  import.set_output_dir(in);
  import.set_tokenizer("/etc/tokenizer.model");
  refused(import, "tokenizer");
}

TEST_F(RequestPathsTest, StopsOnceTheCallIsCancelled) {
  v1::SubmitCorpusRequest corpus;
  for (int i = 0; i < 100; ++i) corpus.mutable_spec()->add_paths((root_ / "x").string());
  int asked = 0;
  const auto cancelled = [&asked] { return ++asked > 3; };
  EXPECT_FAILS(CheckPaths(corpus, roots_, cancelled), StatusCode::kCancelled);
  EXPECT_EQ(asked, 4);
}

TEST_F(RequestPathsTest, ADirectoryWithTheNameOfARunIsChecked) {
  const ScratchDirectory elsewhere;
  const auto before = std::filesystem::current_path();
  v1::GenerateRequest request;
  request.set_model("run-000001");
  for (const auto& directory : {root_.path(), elsewhere.path()}) {
    std::filesystem::create_directory(directory / "run-000001");
    std::filesystem::current_path(directory);
    const absl::Status checked = CheckPaths(request, roots_);
    std::filesystem::current_path(before);
    EXPECT_EQ(checked.ok(), directory == root_.path()) << checked;
  }
}

TEST_F(RequestPathsTest, OnlyARunIdIsNotAPath) {
  for (const char* name : {"run-../x", "run-1/../../etc", "run-", "../run-1", "etc"}) {
    v1::GenerateRequest request;
    request.set_model(name);
    EXPECT_FAILS(CheckPaths(request, roots_), StatusCode::kInvalidArgument, "model", "absolute");
  }
}

}  // namespace request_paths_test
}  // namespace braid
