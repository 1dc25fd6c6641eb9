#include "base/json_fields.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "base/strict_json.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace json_fields_test {

using nlohmann::json;
constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

TEST(JsonFieldsTest, ReadsTypedFields) {
  const json object = {{"layers", 24}, {"epsilon", 1e-5}, {"tied", true}, {"type", "llama"}};
  JsonFields fields(object, "config.json");
  EXPECT_EQ(fields.Integer("layers"), 24);
  EXPECT_EQ(fields.Number("epsilon", 0), 1e-5);
  EXPECT_EQ(fields.Number("layers", 0), 24);
  EXPECT_TRUE(fields.Flag("tied"));
  EXPECT_EQ(fields.Text("type", ""), "llama");
  EXPECT_EQ(fields["type"], "llama");
  EXPECT_OK(fields.status());
}

TEST(JsonFieldsTest, NullCountsAsAbsent) {
  const json object = {{"layers", nullptr}};
  JsonFields fields(object, "config.json");
  for (const char* field : {"layers", "other"}) {
    EXPECT_FALSE(fields.Has(field));
    EXPECT_EQ(fields.Integer(field, {.fallback = 7}), 7);
    EXPECT_EQ(fields.Number(field, 0.5), 0.5);
    EXPECT_TRUE(fields.Flag(field, true));
    EXPECT_EQ(fields.Text(field, "none"), "none");
    fields.RequireOnly(field, 3);
  }
  EXPECT_OK(fields.status());
}

TEST(JsonFieldsTest, ErrorsNameSourceFieldGotAndExpected) {
  const json object = {{"layers", "x\n"}};
  JsonFields fields(object, "config.json");
  EXPECT_EQ(fields.Integer("layers", {.minimum = 1, .maximum = 9}), 1);
  EXPECT_FAILS(fields.status(), kInvalid, "config.json: layers: got \"x\\n\"", "from 1 to 9");
}

TEST(JsonFieldsTest, ErrorsShowTheBeginningOfALongValue) {
  json names = json::object();
  for (int i = 0; i < 10000; ++i) names[std::to_string(i)] = "name";
  const json object = {{"id2label", names}};
  JsonFields fields(object, "config.json");
  fields.Text("id2label", "");
  EXPECT_FAILS(fields.status(), kInvalid, "id2label: got {\"0\":\"name\",",
               "..., expected a string");
  EXPECT_LT(fields.status().message().size(), 500u);
}

TEST(JsonFieldsTest, ReportsARequiredFieldThatIsAbsent) {
  const json object = json::object();
  JsonFields fields(object, "config.json");
  fields.Integer("layers");
  EXPECT_FAILS(fields.status(), kInvalid, "layers: got nothing");
}

TEST(JsonFieldsTest, KeepsTheFirstError) {
  const json object = {{"a", 1}, {"b", 2}};
  JsonFields fields(object, "config.json");
  fields.Text("a", "");
  fields.Flag("b");
  fields.Require(false, "b", "anything else");
  EXPECT_FAILS(fields.status(), kInvalid, "a: got 1, expected a string");
}

TEST(JsonFieldsTest, RejectsIntegersOutsideTheRange) {
  for (const json& value :
       {json(-1), json(10), json(1.0), json(uint64_t{1} << 63), json(INT64_MIN)}) {
    const json object = {{"n", value}};
    JsonFields fields(object, "f");
    EXPECT_EQ(fields.Integer("n", {.minimum = 0, .maximum = 9, .fallback = 5}), 5);
    EXPECT_FAILS(fields.status(), kInvalid, "n: got");
  }
}

TEST(JsonFieldsTest, RequireOnlyAcceptsOneValue) {
  const json object = {{"type", "gpt2"}};
  JsonFields fields(object, "f");
  fields.RequireOnly("type", "gpt2");
  EXPECT_OK(fields.status());
  fields.RequireOnly("type", "bert", " (only encoders)");
  EXPECT_FAILS(fields.status(), kInvalid, "got \"gpt2\"", "expected \"bert\" (only encoders)");
}

TEST(StrictJsonTest, AcceptsObjectsOnly) {
  ASSERT_OK_AND_ASSIGN(const json object, ParseStrictJsonObject(R"({"a": [1]})", 4, "f"));
  EXPECT_EQ(object["a"][0], 1);
  for (const char* text : {"[1]", "3", "", "{", R"({"a": 1, "a": 2})", R"({"a": [[[[1]]]]})"}) {
    EXPECT_FAILS(ParseStrictJsonObject(text, 4, "dir/f"), kInvalid, "dir/f: ");
  }
}

}  // namespace json_fields_test
}  // namespace braid
