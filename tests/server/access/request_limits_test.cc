#include "server/access/request_limits.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>

#include "braid/v1/generation.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "rpc/request_id.h"
#include "tests/base/status_matchers.h"
#include "tests/server/access/served_methods.h"

namespace braid {
namespace request_limits_test {

using absl::StatusCode;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using testing::IsEmpty;
using testing::IsSupersetOf;

std::vector<const Descriptor*> EveryRequest() {
  std::vector<const Descriptor*> requests;
  for (const auto* const method : ServedMethods()) requests.push_back(method->input_type());
  return requests;
}

// Gives one field a value that is out of bounds. Returns false, and changes nothing, for a field to
// which that bound does not apply.
using Spoil = std::function<bool(Message*, const FieldDescriptor&)>;

// Spoils every field of every request, also of nested messages, one at a time, and checks that
// CheckLimits names it.
class FieldWalk {
 public:
  explicit FieldWalk(const Spoil& spoil) : spoil_(spoil) {
    for (const Descriptor* request : EveryRequest()) {
      request_ = request;
      EXPECT_OK(CheckLimits(*NewRequest()));
      Visit({});
    }
  }

  // "Request: field.field" of the fields that were spoiled.
  const std::vector<std::string>& spoiled() const { return spoiled_; }
  // Those of them that CheckLimits accepts, or refuses with another error.
  const std::vector<std::string>& unnoticed() const { return unnoticed_; }

 private:
  std::unique_ptr<Message> NewRequest() const {
    return std::unique_ptr<Message>(
        google::protobuf::MessageFactory::generated_factory()->GetPrototype(request_)->New());
  }

  // `path`: the fields from the request to the message whose fields are visited.
  void Visit(const std::vector<const FieldDescriptor*>& path) {
    const Descriptor* at = path.empty() ? request_ : path.back()->message_type();
    for (int i = 0; i < at->field_count(); ++i) {
      SpoilField(path, *at->field(i));
      if (at->field(i)->message_type() == nullptr) continue;
      std::vector<const FieldDescriptor*> deeper = path;
      deeper.push_back(at->field(i));
      Visit(deeper);
    }
  }

  void SpoilField(const std::vector<const FieldDescriptor*>& path, const FieldDescriptor& field) {
    const std::unique_ptr<Message> message = NewRequest();
    Message* holder = message.get();
    std::string name = std::string(request_->name()) + ": ";
    for (const FieldDescriptor* step : path) {
      holder = step->is_repeated() ? holder->GetReflection()->AddMessage(holder, step)
                                   : holder->GetReflection()->MutableMessage(holder, step);
      name += std::string(step->name()) + ".";
    }
    if (!spoil_(holder, field)) return;
    name += field.name();
    spoiled_.push_back(name);
    const absl::Status status = CheckLimits(*message);
    const bool is_noticed = status.code() == StatusCode::kInvalidArgument &&
                            status.message().find(field.name()) != std::string::npos;
    if (!is_noticed) unnoticed_.push_back(name);
  }

  const Spoil& spoil_;
  const Descriptor* request_ = nullptr;
  std::vector<std::string> spoiled_, unnoticed_;
};

// `examples`: fields at different depths that the walk must have visited.
void ExpectEveryFieldIsNoticed(const Spoil& spoil, const std::vector<std::string>& examples) {
  const FieldWalk walk(spoil);
  EXPECT_THAT(walk.unnoticed(), IsEmpty());
  EXPECT_THAT(walk.spoiled(), IsSupersetOf(examples));
}

TEST(RequestLimitsTest, AFieldWithoutABoundWouldBeNoticed) {
  // Leaves every field as it is, so that CheckLimits accepts every request.
  const FieldWalk walk([](Message*, const FieldDescriptor&) { return true; });
  EXPECT_GT(walk.spoiled().size(), 200U);
  EXPECT_EQ(walk.unnoticed(), walk.spoiled());
}

TEST(RequestLimitsTest, EveryStringOfEveryRequestIsBounded) {
  ExpectEveryFieldIsNoticed(
      [](Message* message, const FieldDescriptor& field) {
        if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
        const std::string value(static_cast<size_t>(LimitOf(field).max_bytes) + 1, 'x');
        if (field.is_repeated()) {
          message->GetReflection()->AddString(message, &field, value);
        } else {
          message->GetReflection()->SetString(message, &field, value);
        }
        return true;
      },
      {"GetJobRequest: id", "SubmitCorpusRequest: spec.paths",
       "LaunchRunRequest: spec.launch.slurm.partition", "EvaluateTasksRequest: tasks.name",
       "GenerateRequest: prompt", "EmbedRequest: texts"});
}

TEST(RequestLimitsTest, NoStringButTextHasControlCharacters) {
  for (const std::string& value :
       {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f")}) {
    ExpectEveryFieldIsNoticed(
        [&](Message* message, const FieldDescriptor& field) {
          if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING || LimitOf(field).is_text)
            return false;
          if (field.is_repeated()) {
            message->GetReflection()->AddString(message, &field, value);
          } else {
            message->GetReflection()->SetString(message, &field, value);
          }
          return true;
        },
        {"GetJobRequest: id", "SubmitCorpusRequest: spec.paths",
         "LaunchRunRequest: spec.launch.hosts.host"});
  }
  v1::GenerateRequest request;
  request.set_prompt("two\nlines");
  EXPECT_OK(CheckLimits(request));
}

TEST(RequestLimitsTest, EveryFractionOfEveryRequestIsFinite) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    ExpectEveryFieldIsNoticed(
        [&](Message* message, const FieldDescriptor& field) {
          const auto* const reflection = message->GetReflection();
          switch (field.cpp_type()) {
            case FieldDescriptor::CPPTYPE_DOUBLE:
              field.is_repeated() ? reflection->AddDouble(message, &field, value)
                                  : reflection->SetDouble(message, &field, value);
              return true;
            case FieldDescriptor::CPPTYPE_FLOAT:
              field.is_repeated()
                  ? reflection->AddFloat(message, &field, static_cast<float>(value))
                  : reflection->SetFloat(message, &field, static_cast<float>(value));
              return true;
            default:
              return false;
          }
        },
        {"GenerateRequest: temperature", "LaunchRunRequest: spec.optimizer.learning_rate",
         "AddVectorsRequest: values"});
  }
}

TEST(RequestLimitsTest, EveryEnumOfEveryRequestIsKnown) {
  ExpectEveryFieldIsNoticed(
      [](Message* message, const FieldDescriptor& field) {
        if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM) return false;
        const auto* const reflection = message->GetReflection();
        field.is_repeated() ? reflection->AddEnumValue(message, &field, 99)
                            : reflection->SetEnumValue(message, &field, 99);
        return true;
      },
      {"SubmitCorpusRequest: spec.order", "LaunchRunRequest: spec.model.routing.router",
       "GenerateRequest: routing", "EvaluateRequest: fixed_weights"});
}

TEST(RequestLimitsTest, EveryListOfEveryRequestIsBounded) {
  ExpectEveryFieldIsNoticed(
      [](Message* message, const FieldDescriptor& field) {
        if (!field.is_repeated()) return false;
        const int64_t count = LimitOf(field).max_elements + 1;
        for (int64_t i = 0; i < count; ++i) {
          switch (field.cpp_type()) {
            case FieldDescriptor::CPPTYPE_STRING:
              message->GetReflection()->AddString(message, &field, "");
              break;
            case FieldDescriptor::CPPTYPE_MESSAGE:
              message->GetReflection()->AddMessage(message, &field);
              break;
            case FieldDescriptor::CPPTYPE_INT32:
              message->GetReflection()->AddInt32(message, &field, 1);
              break;
            case FieldDescriptor::CPPTYPE_INT64:
              message->GetReflection()->AddInt64(message, &field, 1);
              break;
            case FieldDescriptor::CPPTYPE_FLOAT:
              message->GetReflection()->AddFloat(message, &field, 1);
              break;
            case FieldDescriptor::CPPTYPE_DOUBLE:
              message->GetReflection()->AddDouble(message, &field, 1);
              break;
            case FieldDescriptor::CPPTYPE_ENUM:
              message->GetReflection()->AddEnumValue(message, &field, 0);
              break;
            default:
              ADD_FAILURE() << "no list of " << field.cpp_type_name() << " is known here";
          }
        }
        return true;
      },
      {"EvaluateRequest: models", "SubmitCorpusRequest: spec.paths",
       "LaunchRunRequest: spec.launch.hosts", "ExplainInstancesRequest: instances",
       "AddVectorsRequest: values"});
}

TEST(RequestLimitsTest, ErrorsNameThePath) {
  v1::SubmitCorpusRequest request;
  request.mutable_spec()->add_paths("/a");
  request.mutable_spec()->add_paths(std::string(5000, 'x'));
  EXPECT_FAILS(CheckLimits(request), StatusCode::kInvalidArgument,
               "spec.paths[1]: got 5000 bytes, expected at most 4096");
}

TEST(RequestLimitsTest, ExceptionsAreForFieldsThatExist) {
  const auto* const pool = google::protobuf::DescriptorPool::generated_pool();
  EveryRequest();
  for (const FieldLimit& limit : FieldLimitExceptions()) {
    EXPECT_NE(pool->FindFieldByName(std::string(limit.field)), nullptr) << limit.field;
  }
}

TEST(RequestIdTest, AcceptsOnlyCharactersThatAreSafeInLogsAndHeaders) {
  EXPECT_TRUE(IsRequestId("a-B_1.x"));
  for (const std::string& id : {std::string(), std::string(65, 'a'), std::string("a b"),
                                std::string("a\"b"), std::string("a\n"), std::string("\xc3\xa4")}) {
    EXPECT_FALSE(IsRequestId(id)) << id;
  }
  EXPECT_TRUE(IsRequestId(NewCallId()));
  EXPECT_NE(NewCallId(), NewCallId());
}

TEST(RequestKeyTest, DiffersBetweenPrincipals) {
  EXPECT_EQ(RequestKey("ann", "once"), RequestKey("ann", "once"));
  EXPECT_NE(RequestKey("ann", "once"), RequestKey("bob", "once"));
  EXPECT_NE(RequestKey("a", "b/c"), RequestKey("a/b", "c"));
}

}  // namespace request_limits_test
}  // namespace braid
