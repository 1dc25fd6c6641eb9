#include "pipeline/corpus/record_filter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace record_filter_test {

using ::testing::HasSubstr;
using Maybe = std::optional<bool>;

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A record with the fields n (number), s (text) and b (boolean).
struct Row {
  std::optional<double> n = std::nullopt;
  std::optional<std::string> s = std::nullopt;
  Maybe b = std::nullopt;
};

std::vector<FieldValue> ValuesOf(const RecordFilter& filter, const Row& row) {
  std::vector<FieldValue> values;
  for (const FilterField& field : filter.fields()) {
    FieldValue value;
    if (field.name == "n" && row.n) value = static_cast<long double>(*row.n);
    if (field.name == "s" && row.s) value = std::string_view(*row.s);
    if (field.name == "b" && row.b) value = *row.b;
    values.push_back(value);
  }
  return values;
}

bool Keeps(const std::string& text, const Row& row) {
  const auto filter = RecordFilter::Parse(text);
  EXPECT_TRUE(filter.ok()) << text << filter.status();
  return filter.ok() && filter->Keeps(ValuesOf(*filter, row));
}

TEST(RecordFilterTest, EvaluatesEachOperator) {
  const Row row{.n = 0.5, .s = "en", .b = true};
  for (const char* kept : {"n = 0.5",
                           "n == 5e-1",
                           "n < 1",
                           "n <= .5",
                           "n > -1",
                           "n >= 0.5",
                           "n != 0",
                           "n <> 0",
                           "s = 'en'",
                           "s = \"en\"",
                           "s >= 'em'",
                           "s in ('de', 'en')",
                           "s not in ('de')",
                           "b",
                           "b = true",
                           "b != false",
                           "not b = false",
                           "n is not null",
                           "not n is null",
                           "n > 1 or s = 'en'",
                           "n < 1 AND s = 'en' And b",
                           "(n > 1 or b) and not (s = 'de')",
                           "b or n > 1 and n > 2",
                           "`s` = 'en'",
                           "n in (1, 0.5, 2)"}) {
    EXPECT_TRUE(Keeps(kept, row)) << kept;
    EXPECT_FALSE(Keeps(absl::StrCat("not (", kept, ")"), row)) << kept;
  }
}

TEST(RecordFilterTest, ComparisonsWithNullAreNeitherTrueNorFalse) {
  for (const char* test : {"n > 1", "not n > 1", "n != 1", "n in (1)", "n not in (1)", "s = 'x'",
                           "b", "not b", "n > 1 or n <= 1", "n > 1 and b"}) {
    EXPECT_FALSE(Keeps(test, {})) << test;
  }
  EXPECT_TRUE(Keeps("n is null and not (s is not null)", {}));
  EXPECT_TRUE(Keeps("n > 1 or s is null", {}));
  EXPECT_TRUE(Keeps("not (n > 1 and s is not null)", {})) << "false and unknown are false";
}

TEST(RecordFilterTest, ComparesNumbersExactly) {
  const auto filter = RecordFilter::Parse("n = 9007199254740993");
  ASSERT_TRUE(filter.ok());
  const auto keeps = [&](long double value) {
    const FieldValue values[] = {value};
    return filter->Keeps(values);
  };
  EXPECT_TRUE(keeps(9007199254740993LL));
  EXPECT_FALSE(keeps(9007199254740992LL)) << "equal as doubles";
  EXPECT_TRUE(Keeps("n > 0.8", {.n = static_cast<double>(0.8f)})) << "0.8f is above 0.8";
  for (const char* test : {"n = 1", "n < 1", "n >= 1", "n in (1)"}) {
    EXPECT_FALSE(Keeps(test, {.n = kNan})) << test;
  }
  EXPECT_TRUE(Keeps("n != 1 and not n < 1 and n is not null", {.n = kNan}));
  EXPECT_TRUE(Keeps("s = 'it''s \"x\"'", {.s = "it's \"x\""}));
}

TEST(RecordFilterTest, ErrorsNamePositionAndCause) {
  struct Bad {
    const char* text;
    std::vector<std::string> parts;
  };
  const std::string deep(150, '(');
  const std::vector<Bad> cases = {
      {"", {"at byte 0", "the end", "field"}},
      {"n >", {"at byte 3", "the end", "number"}},
      {"n = null", {"at byte 4", "'null'", "is null"}},
      {"n = 1 s = 2", {"at byte 6", "'s'", "and, or"}},
      {"n = 'x", {"at byte 4", "not closed"}},
      {"n = 1.2.3", {"'1.2.3'", "decimal number"}},
      {"n = 1e999", {"'1e999'", "finite"}},
      {"n = nan", {"'nan'", "number"}},
      {"n = 1 and n = 'x'", {"'n' with a text", "a number"}},
      {"b < true", {"order of booleans"}},
      {"n in 1", {"'('"}},
      {"n in (1", {"','"}},
      {"n in ()", {"')'"}},
      {"n not 1", {"in after"}},
      {"n is 1", {"null"}},
      {"and = 1", {"'and'", "field"}},
      {"(n = 1", {"the end", "')'"}},
      {"n = 1)", {"')'", "the end of the expression"}},
      {"n ~ 1", {"'~'"}},
      {"n = \xff", {"UTF-8"}},
      {deep.c_str(), {"at most 100 levels"}},
  };
  for (const Bad& bad : cases) {
    const absl::Status status = RecordFilter::Parse(bad.text).status();
    ASSERT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << bad.text;
    const std::string message(status.message());
    EXPECT_THAT(message, HasSubstr("ingest.where"));
    EXPECT_LE(message.size(), 300u);
    for (const std::string& part : bad.parts) EXPECT_THAT(message, HasSubstr(part)) << bad.text;
  }
  EXPECT_FALSE(RecordFilter::Parse(std::string(70'000, ' ') + "n = 1").ok());
}

TEST(RecordFilterTest, CutExpressionsAreErrorsOrExpressions) {
  const std::string whole = "not (n >= -0.5 and s in ('it''s', \"x\")) or b and n is not null";
  int complete = 0;
  for (size_t size = 0; size <= whole.size(); ++size) {
    const absl::Status status = RecordFilter::Parse(whole.substr(0, size)).status();
    complete += status.ok() ? 1 : 0;
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << size << status;
  }
  // After the parenthesis, "b", "n", each of them with a space, and the whole.
  EXPECT_EQ(complete, 7);
}

// A random expression as text, together with a function that evaluates it by its definition.
struct Expression {
  std::string text;
  std::function<Maybe(const Row&)> value;
};

template <class T, class Function>
std::function<Maybe(const Row&)> TestOf(std::optional<T> Row::*field, Function test) {
  return [=](const Row& row) -> Maybe {
    if (!(row.*field)) return std::nullopt;
    return test(*(row.*field));
  };
}

Expression RandomTest(std::mt19937& random) {
  const int number = static_cast<int>(random() % 7) - 3;
  const std::string word(1, static_cast<char>('a' + random() % 3));
  switch (random() % 9) {
    case 0:
      return {absl::StrCat("n < ", number), TestOf(&Row::n, [=](double n) { return n < number; })};
    case 1:
      return {absl::StrCat("n >= ", number),
              TestOf(&Row::n, [=](double n) { return n >= number; })};
    case 2:
      return {absl::StrCat("n != ", number),
              TestOf(&Row::n, [=](double n) { return n != number; })};
    case 3:
      return {absl::StrCat("n in (", number, ", 0.5)"),
              TestOf(&Row::n, [=](double n) { return n == number || n == 0.5; })};
    case 4:
      return {absl::StrCat("s = '", word, "'"),
              TestOf(&Row::s, [=](const std::string& s) { return s == word; })};
    case 5:
      return {absl::StrCat("s > \"", word, "\""),
              TestOf(&Row::s, [=](const std::string& s) { return s > word; })};
    case 6:
      return {"b", TestOf(&Row::b, [](bool b) { return b; })};
    case 7:
      return {"s is null", [](const Row& row) -> Maybe { return !row.s; }};
    default:
      return {"n is not null", [](const Row& row) -> Maybe { return row.n.has_value(); }};
  }
}

Expression RandomExpression(int depth, std::mt19937& random) {
  const uint32_t kind = depth == 0 ? 0 : random() % 4;
  if (kind == 0) return RandomTest(random);
  const Expression a = RandomExpression(depth - 1, random);
  if (kind == 1) {
    return {absl::StrCat("not (", a.text, ")"), [=](const Row& row) -> Maybe {
              const Maybe x = a.value(row);
              return x ? Maybe(!*x) : std::nullopt;
            }};
  }
  const Expression b = RandomExpression(depth - 1, random);
  const bool decides = kind == 2;  // the value that decides alone: true for or, false for and
  return {absl::StrCat("(", a.text, kind == 2 ? ") or (" : ") and (", b.text, ")"),
          [=](const Row& row) -> Maybe {
            const Maybe x = a.value(row), y = b.value(row);
            if (x == Maybe(decides) || y == Maybe(decides)) return decides;
            return x && y ? Maybe(!decides) : std::nullopt;
          }};
}

Row RandomRow(std::mt19937& random) {
  const auto is = [&](uint32_t n) { return random() % n == 0; };
  Row row;
  if (!is(4)) row.n = is(8) ? kNan : (static_cast<double>(random() % 15) - 7) / 2;
  if (!is(4)) row.s = std::string(1, static_cast<char>('a' + random() % 3));
  if (!is(4)) row.b = is(2);
  return row;
}

TEST(RecordFilterTest, EqualsTheDefinitionOnRandomExpressions) {
  std::mt19937 random(3);
  int kept = 0;
  for (int i = 0; i < 2000; ++i) {
    const Expression expression = RandomExpression(4, random);
    const auto filter = RecordFilter::Parse(expression.text);
    ASSERT_TRUE(filter.ok()) << expression.text << filter.status();
    for (int j = 0; j < 20; ++j) {
      const Row row = RandomRow(random);
      const bool expected = expression.value(row) == Maybe(true);
      ASSERT_EQ(filter->Keeps(ValuesOf(*filter, row)), expected) << expression.text;
      kept += expected ? 1 : 0;
    }
  }
  EXPECT_GT(kept, 5000);
}

// Returns bounds of the field in `rows`, as a writer of Parquet would state them.
template <class T, class Convert>
FieldRange RangeOfRows(const std::vector<Row>& rows, std::optional<T> Row::*field,
                       const Convert& convert) {
  FieldRange range;
  range.may_be_null = range.may_be_value = false;
  for (const Row& row : rows) {
    const std::optional<T>& value = row.*field;
    if (!value) {
      range.may_be_null = true;
      continue;
    }
    range.may_be_value = true;
    if (*value != *value) continue;  // NaN
    const FieldValue converted = convert(*value);
    if (range.lowest.index() == 0 || converted < range.lowest) range.lowest = converted;
    if (range.highest.index() == 0 || converted > range.highest) range.highest = converted;
  }
  return range;
}

TEST(RecordFilterTest, PassesOverRangesOnlyIfNoRecordIsKept) {
  std::mt19937 random(4);
  int passed_over = 0, kept_none = 0;
  for (int i = 0; i < 5000; ++i) {
    const Expression expression = RandomExpression(3, random);
    const auto filter = RecordFilter::Parse(expression.text);
    ASSERT_TRUE(filter.ok());
    std::vector<Row> rows(1 + random() % 3);
    for (Row& row : rows) row = RandomRow(random);
    std::vector<FieldRange> ranges;
    for (const FilterField& field : filter->fields()) {
      if (random() % 8 == 0) {
        ranges.push_back({});  // no statistics
      } else if (field.name == "n") {
        ranges.push_back(RangeOfRows(
            rows, &Row::n, [](double x) -> FieldValue { return static_cast<long double>(x); }));
      } else if (field.name == "s") {
        ranges.push_back(RangeOfRows(
            rows, &Row::s, [](const std::string& x) -> FieldValue { return std::string_view(x); }));
      } else {
        ranges.push_back(RangeOfRows(rows, &Row::b, [](bool x) -> FieldValue { return x; }));
      }
    }
    const bool any_kept = std::ranges::any_of(
        rows, [&](const Row& row) { return filter->Keeps(ValuesOf(*filter, row)); });
    const bool may_keep = filter->MayKeep(ranges);
    ASSERT_TRUE(may_keep || !any_kept) << expression.text;
    passed_over += may_keep ? 0 : 1;
    kept_none += any_kept ? 0 : 1;
  }
  EXPECT_GT(passed_over, kept_none / 3) << "statistics decide many cases";
}

}  // namespace record_filter_test
}  // namespace braid
