#include "server/access/request_limits.h"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <limits>
#include <set>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/embedding.pb.h"
#include "braid/v1/generation.pb.h"
#include "braid/v1/neighbors.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/training.pb.h"
#include "rpc/request_id.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace request_limits_test {

using absl::StatusCode;
using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

std::vector<const Descriptor*> EveryRequest() {
  std::vector<const Descriptor*> requests;
  for (const auto* file :
       {v1::Job::descriptor()->file(), v1::Run::descriptor()->file(),
        v1::Forecast::descriptor()->file(), v1::EmbedRequest::descriptor()->file(),
        v1::SearchRequest::descriptor()->file()}) {
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        requests.push_back(file->service(s)->method(m)->input_type());
      }
    }
  }
  return requests;
}

// Sets one field to what is out of bounds, alone and deep down.
using Spoil = std::function<bool(Message*, const FieldDescriptor&)>;

void ForEachField(const Descriptor& request, const std::function<Message*()>& fresh,
                  const std::vector<const FieldDescriptor*>& way, const Spoil& spoil) {
  const Descriptor* at = way.empty() ? &request : way.back()->message_type();
  for (int i = 0; i < at->field_count(); ++i) {
    const FieldDescriptor& field = *at->field(i);
    const std::unique_ptr<Message> message(fresh());
    Message* holder = message.get();
    for (const FieldDescriptor* step : way) {
      holder = step->is_repeated() ? holder->GetReflection()->AddMessage(holder, step)
                                   : holder->GetReflection()->MutableMessage(holder, step);
    }
    if (field.message_type() != nullptr) {
      std::vector<const FieldDescriptor*> further = way;
      further.push_back(&field);
      ForEachField(request, fresh, further, spoil);
    }
    if (!spoil(holder, field)) continue;
    EXPECT_FAILS(CheckLimits(*message), StatusCode::kInvalidArgument, std::string(field.name()))
        << field.full_name();
  }
}

void ForEveryRequest(const Spoil& spoil) {
  for (const Descriptor* request : EveryRequest()) {
    const auto fresh = [request] {
      return google::protobuf::MessageFactory::generated_factory()->GetPrototype(request)->New();
    };
    EXPECT_OK(CheckLimits(*std::unique_ptr<Message>(fresh())));
    ForEachField(*request, fresh, {}, spoil);
  }
}

TEST(RequestLimitsTest, EveryStringOfEveryRequestIsBounded) {
  ForEveryRequest([](Message* message, const FieldDescriptor& field) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) return false;
    const std::string value(static_cast<size_t>(LimitOf(field).max_bytes) + 1, 'x');
    if (field.is_repeated()) {
      message->GetReflection()->AddString(message, &field, value);
    } else {
      message->GetReflection()->SetString(message, &field, value);
    }
    return true;
  });
}

TEST(RequestLimitsTest, NoStringButTextHasControlCharacters) {
  for (const std::string& value :
       {std::string("a\nb"), std::string("a\0b", 3), std::string("\x7f")}) {
    ForEveryRequest([&](Message* message, const FieldDescriptor& field) {
      if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING || LimitOf(field).is_text)
        return false;
      if (field.is_repeated()) {
        message->GetReflection()->AddString(message, &field, value);
      } else {
        message->GetReflection()->SetString(message, &field, value);
      }
      return true;
    });
  }
  v1::GenerateRequest request;
  request.set_prompt("two\nlines");
  EXPECT_OK(CheckLimits(request));
}

TEST(RequestLimitsTest, EveryFractionOfEveryRequestIsFinite) {
  for (const double value : {std::nan(""), std::numeric_limits<double>::infinity()}) {
    ForEveryRequest([&](Message* message, const FieldDescriptor& field) {
      const auto* const reflection = message->GetReflection();
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE && !field.is_repeated()) {
        reflection->SetDouble(message, &field, value);
        return true;
      }
      if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT && field.is_repeated()) {
        reflection->AddFloat(message, &field, static_cast<float>(value));
        return true;
      }
      return false;
    });
  }
}

TEST(RequestLimitsTest, EveryEnumOfEveryRequestIsKnown) {
  ForEveryRequest([](Message* message, const FieldDescriptor& field) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_ENUM || field.is_repeated()) return false;
    message->GetReflection()->SetEnumValue(message, &field, 99);
    return true;
  });
}

TEST(RequestLimitsTest, EveryListOfEveryRequestIsBounded) {
  ForEveryRequest([](Message* message, const FieldDescriptor& field) {
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
        case FieldDescriptor::CPPTYPE_ENUM:
          message->GetReflection()->AddEnumValue(message, &field, 0);
          break;
        default:
          ADD_FAILURE() << "no list of " << field.cpp_type_name() << " is known here";
      }
    }
    return true;
  });
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

TEST(RequestIdTest, TakesNothingThatALogOrAHeaderWouldChoke) {
  EXPECT_TRUE(IsRequestId("a-B_1.x"));
  for (const std::string& id : {std::string(), std::string(65, 'a'), std::string("a b"),
                                std::string("a\"b"), std::string("a\n"), std::string("\xc3\xa4")}) {
    EXPECT_FALSE(IsRequestId(id)) << id;
  }
  EXPECT_TRUE(IsRequestId(NewCallId()));
  EXPECT_NE(NewCallId(), NewCallId());
}

}  // namespace request_limits_test
}  // namespace braid
