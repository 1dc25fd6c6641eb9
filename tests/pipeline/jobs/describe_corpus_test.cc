// DescribeCorpus over gRPC.
#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "braid/v1/pipeline.grpc.pb.h"
#include "pipeline/corpus/corpus_description.h"
#include "pipeline/jobs/pipeline_service.h"
#include "tests/base/crafted_files.h"
#include "tests/base/status_matchers.h"
#include "tests/pipeline/jobs/generated_corpus.h"

namespace braid {
namespace describe_corpus_test {

using testing::HasSubstr;

// A streaming call with a deadline of one minute.
class Call {
 public:
  Call(v1::PipelineService::Stub& stub, const v1::DescribeCorpusRequest& request) {
    context_.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(60));
    reader_ = stub.DescribeCorpus(&context_, request);
  }

  bool Read(v1::DescribeCorpusEvent* event) { return reader_->Read(event); }
  void Cancel() { context_.TryCancel(); }
  // Reads the remaining events.
  grpc::Status Finish() {
    v1::DescribeCorpusEvent event;
    while (reader_->Read(&event)) {
    }
    return reader_->Finish();
  }

 private:
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<v1::DescribeCorpusEvent>> reader_;
};

class DescribeCorpusTest : public testing::Test {
 protected:
  DescribeCorpusTest() {
    auto service =
        MakePipelineService({.home = NewDirectory(), .num_workers = 0, .max_descriptions = 2});
    EXPECT_OK(service);
    service_ = *std::move(service);
    grpc::ServerBuilder builder;
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    stub_ = v1::PipelineService::NewStub(server_->InProcessChannel({}));
    const std::filesystem::path corpus = NewDirectory() / "tiny.jsonl";
    WriteCorpus(corpus);
    tiny_.add_paths(corpus.string());
    // 6 GB, which take far longer to read than a test takes. The paths differ, since a repeated one
    // is not read again.
    const std::filesystem::path file = files_.Write("x.jsonl", TextRecords());
    for (int i = 0; i < 3'000; ++i) {
      const std::filesystem::path link = files_.directory() / (std::to_string(i) + ".jsonl");
      std::filesystem::create_symlink(file, link);
      endless_.add_paths(link.string());
    }
  }
  ~DescribeCorpusTest() override {
    if (server_ != nullptr) server_->Shutdown(std::chrono::system_clock::now());
  }

  static std::string TextRecords() {
    std::string records;
    for (int i = 0; i < 40; ++i) {
      records += "{\"text\": \"" + std::string(50'000, 'x') + "\"}\n";
    }
    return records;
  }

  grpc::Status Describe(const v1::DescribeCorpusRequest& request) {
    return Call(*stub_, request).Finish();
  }

  const CraftedFiles files_;
  v1::DescribeCorpusRequest tiny_, endless_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<v1::PipelineService::Stub> stub_;
};

TEST_F(DescribeCorpusTest, StreamsProgressAndThenTheDescription) {
  Call call(*stub_, tiny_);
  std::vector<v1::DescribeCorpusEvent> events;
  v1::DescribeCorpusEvent event;
  while (call.Read(&event)) events.push_back(event);
  ASSERT_TRUE(call.Finish().ok());
  ASSERT_GE(events.size(), 2u);
  for (size_t i = 0; i + 1 < events.size(); ++i) EXPECT_FALSE(events[i].has_result());
  EXPECT_EQ(events.front().done(), 0);
  EXPECT_GT(events.front().total(), 0);
  EXPECT_EQ(events.back().done(), events.front().total());
  const auto wanted = DescribeCorpus(tiny_, [](int64_t, int64_t) { return absl::OkStatus(); });
  ASSERT_OK(wanted);
  EXPECT_EQ(events.back().result().DebugString(), wanted->DebugString());
  EXPECT_EQ(wanted->num_documents(), GeneratedCorpus::kUnique + GeneratedCorpus::kDuplicates);
}

TEST_F(DescribeCorpusTest, FailsForAMissingPathAndReleasesItsQuota) {
  v1::DescribeCorpusRequest request;
  request.add_paths("/no/such/corpus.jsonl");
  for (int i = 0; i < 5; ++i) {
    const grpc::Status status = Describe(request);
    EXPECT_EQ(status.error_code(), grpc::StatusCode::NOT_FOUND);
    EXPECT_THAT(status.error_message(), HasSubstr("/no/such/corpus.jsonl"));
  }
}

TEST_F(DescribeCorpusTest, EndsWhenTheClientDisconnectsAndReleasesItsQuota) {
  Call first(*stub_, endless_), second(*stub_, endless_);
  v1::DescribeCorpusEvent event;
  ASSERT_TRUE(first.Read(&event));
  ASSERT_TRUE(second.Read(&event));
  const grpc::Status full = Describe(tiny_);
  EXPECT_EQ(full.error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_THAT(full.error_message(), HasSubstr("--quota-descriptions"));
  first.Cancel();
  EXPECT_EQ(first.Finish().error_code(), grpc::StatusCode::CANCELLED);
  // The server notices the disconnection a little later.
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!Describe(tiny_).ok()) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::yield();
  }
  second.Cancel();
  EXPECT_EQ(second.Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(DescribeCorpusTest, EndsWhenTheServerShutsDown) {
  Call call(*stub_, endless_);
  v1::DescribeCorpusEvent event;
  ASSERT_TRUE(call.Read(&event));
  const auto begin = std::chrono::steady_clock::now();
  server_->Shutdown(std::chrono::system_clock::now());
  server_->Wait();
  EXPECT_FALSE(call.Finish().ok());
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

}  // namespace describe_corpus_test
}  // namespace braid
