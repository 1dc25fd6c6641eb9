#include "cli/prompt_batch.h"

#include <gmock/gmock.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <nlohmann/json.hpp>
#include <sstream>

#include "braid/v1/generation.grpc.pb.h"
#include "cli/prompt_list.h"

namespace braid {
namespace prompt_batch_test {

using testing::HasSubstr;
using testing::Not;

// A service that echoes prompts. It rejects "bad", generates "endless" until cancelled, and reports
// a full queue to the first `full` calls.
class EchoService final : public v1::GenerationService::Service {
 public:
  grpc::Status Generate(grpc::ServerContext* context, const v1::GenerateRequest* request,
                        grpc::ServerWriter<v1::GenerateEvent>* writer) override {
    ++calls;
    if (full-- > 0) return {grpc::StatusCode::RESOURCE_EXHAUSTED, "the queue is full"};
    if (request->prompt() == "bad") return {grpc::StatusCode::INVALID_ARGUMENT, "bad\x1b[2J"};
    if (request->prompt() == "broken") return {grpc::StatusCode::UNAVAILABLE, "gone"};
    while (request->prompt() == "endless" && !context->IsCancelled()) {
      gpr_sleep_until(
          gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(5, GPR_TIMESPAN)));
    }
    v1::GenerateEvent event;
    event.set_text(request->prompt());
    event.set_done(true);
    auto* const mixture = event.add_routing();
    mixture->add_weights(1);
    mixture->set_before_token(1);
    writer->Write(event);
    return grpc::Status::OK;
  }

  std::atomic<int> calls = 0, full = 0;
};

class PromptBatchTest : public testing::Test {
 protected:
  PromptBatchTest() {
    grpc::ServerBuilder builder;
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ =
        std::make_unique<GenerationClient>(server_->InProcessChannel(grpc::ChannelArguments()));
  }
  absl::Status Json(const std::vector<std::string>& prompts, int parallel) {
    return ContinueAsJson(*client_, {prompts, {}, parallel, std::chrono::milliseconds(1)}, out_,
                          notes_);
  }
  nlohmann::json Line() {
    std::string line;
    std::getline(answers_, line);
    return nlohmann::json::parse(line);
  }

  EchoService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<GenerationClient> client_;
  std::ostringstream out_, notes_;
  std::istringstream answers_;
};

TEST_F(PromptBatchTest, RetriesWhenTheServerIsFullAndReportsItOnce) {
  service_.full = 5;
  ASSERT_TRUE(Json({"a", "b", "c", "d"}, 3).ok());
  EXPECT_EQ(service_.calls, 9);
  const std::string notes = notes_.str(), note = "is full; retrying: the queue is full";
  EXPECT_THAT(notes, HasSubstr(note));
  EXPECT_EQ(notes.find(note), notes.rfind(note)) << notes;
  answers_.str(out_.str());
  for (const char* text : {"a", "b", "c", "d"}) EXPECT_EQ(Line()["text"], text);
}

TEST_F(PromptBatchTest, JsonIncludesZeros) {
  ASSERT_TRUE(Json({"a"}, 1).ok());
  answers_.str(out_.str());
  const auto line = Line();
  EXPECT_EQ(line["num_tokens"], 0);
  EXPECT_EQ(line["routing"][0]["layer"], 0);
  EXPECT_EQ(line["routing"][0]["before_token"], 1);
}

TEST_F(PromptBatchTest, ReportsEachFailureOnceAndCountsThem) {
  const absl::Status status = Json({"a", "bad", "c", "bad"}, 2);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(), "2 of 4 prompts could not be continued");
  EXPECT_THAT(notes_.str(), HasSubstr("prompt 2/4: bad"));
  const absl::Status broken = Json({"broken", "c"}, 1);
  EXPECT_TRUE(absl::IsUnavailable(broken));
  EXPECT_THAT(notes_.str(), Not(HasSubstr("gone")));  // the caller reports it
}

TEST_F(PromptBatchTest, EndingEarlyCancelsOtherRequests) {
  EXPECT_TRUE(absl::IsUnavailable(Json({"broken", "endless", "endless"}, 3)));
}

TEST_F(PromptBatchTest, BoundsHowFarRequestsRunAhead) {
  const std::vector<std::string> prompts(200, "a");
  int most = 0, taken = 0;
  std::ostringstream out;
  // The stream is used once per prompt, so that slow writing shows how many prompts were requested.
  struct Counting : std::stringbuf {
    std::function<void()> on_sync;
    int sync() override {
      on_sync();
      return 0;
    }
  } counting;
  counting.on_sync = [&] {
    ++taken;
    gpr_sleep_until(
        gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_millis(1, GPR_TIMESPAN)));
    most = std::max(most, service_.calls - taken);
  };
  std::ostream slow(&counting);
  ASSERT_TRUE(ContinueAsJson(*client_, {prompts, {}, 2}, slow, notes_).ok());
  EXPECT_EQ(taken, 200);
  EXPECT_LE(most, 9);
}

absl::StatusOr<std::vector<std::string>> Read(const std::string& text) {
  std::istringstream in(text);
  return ReadPrompts(in, "prompts");
}

TEST(PromptListTest, ReadsLinesOrJsonObjects) {
  EXPECT_EQ(*Read("a b\n\n  \nc\r\nd"), (std::vector<std::string>{"a b", "c", "d"}));
  EXPECT_EQ(*Read("{\"prompt\":\"a\\nb\"}\n{\"prompt\":\"c\",\"x\":1}\n"),
            (std::vector<std::string>{"a\nb", "c"}));
  EXPECT_EQ(*Read("\xEF\xBB\xBF"
                  "a\nb"),
            (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(*Read("a\n{\"prompt\":\"b\"}"), (std::vector<std::string>{"a", "{\"prompt\":\"b\"}"}));
}

TEST(PromptListTest, ErrorsNameTheLine) {
  for (const char* text : {"{\"prompt\":\"a\"}\nb", "{\"prompt\":\"a\"}\n{\"text\":\"b\"}",
                           "{\"prompt\":\"a\"}\n{\"prompt\":7}", "a\n\xFF"}) {
    EXPECT_THAT(std::string(Read(text).status().message()), HasSubstr("prompts:2: ")) << text;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Read("\n").status()));
}

// A stream without line breaks, as /dev/zero.
TEST(PromptListTest, RejectsAnEndlessLine) {
  struct Endless : std::streambuf {
    char zeros[4096] = {};
    int underflow() override {
      setg(zeros, zeros, zeros + sizeof(zeros));
      return 0;
    }
  } endless;
  std::istream in(&endless);
  EXPECT_THAT(std::string(ReadPrompts(in, "zero").status().message()),
              HasSubstr("zero:1: got a line"));
}

}  // namespace prompt_batch_test
}  // namespace braid
