#include "evaluation/tasks/xml_records.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <string>
#include <vector>

#include "tests/base/status_matchers.h"

namespace braid {
namespace xml_records_test {

using nlohmann::json;

absl::StatusOr<std::vector<TaskRecord>> Parse(const std::string& text) {
  return ParseXmlRecords(text, "x.xml", "p");
}

TEST(XmlRecordsTest, FieldsAreAttributesAndTextsOfChildren) {
  ASSERT_OK_AND_ASSIGN(
      const auto records,
      Parse("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<all>\n"
            "  <p id='1' x='&lt;'> loose <a>t\xC3\xA9 &amp; <b>bold</b>.</a><c/></p>\n"
            "  <other><p>\n<a><![CDATA[<raw>]]></a></p></other><p/>\n</all>"));
  ASSERT_EQ(records.size(), 3u);
  EXPECT_EQ(records[0].fields,
            json({{"id", "1"}, {"x", "<"}, {"a", "t\xC3\xA9 & bold."}, {"c", ""}}));
  EXPECT_EQ(records[0].where, "x.xml:3");
  EXPECT_EQ(records[1].fields, json({{"a", "<raw>"}}));
  EXPECT_EQ(records[1].where, "x.xml:4");
  EXPECT_EQ(records[2].fields, json::object());
}

TEST(XmlRecordsTest, ChildrenOfOneNameAreAList) {
  ASSERT_OK_AND_ASSIGN(const auto records, Parse("<p><a>1</a><b>x</b><a>2</a><a>3</a></p>"));
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].fields, json({{"a", {"1", "2", "3"}}, {"b", "x"}}));
}

TEST(XmlRecordsTest, OnlyTheOuterOfNestedRecordsIsOne) {
  ASSERT_OK_AND_ASSIGN(const auto records, Parse("<all><p><p>inner</p></p><q><p>y</p></q></all>"));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_EQ(records[0].fields, json({{"p", "inner"}}));
}

TEST(XmlRecordsTest, OtherEncodingsBecomeUtf8) {
  ASSERT_OK_AND_ASSIGN(const auto records,
                       Parse("<?xml version='1.0' encoding='ISO-8859-1'?><p a='\xE9'/>"));
  EXPECT_EQ(records.at(0).fields["a"], "\xC3\xA9");
}

TEST(XmlRecordsTest, MalformedDocumentsNameTheLine) {
  std::string deep, end;
  for (int i = 0; i < 40; ++i) deep += "<d>", end += "</d>";
  for (const auto& [text, line, message] : std::vector<std::array<std::string, 3>>{
           {"", "x.xml:1", "no element found"},
           {"<all>\n<p></all>", "x.xml:2", "mismatched tag"},
           {"<all>\n<p/>\n", "x.xml:3", "not well-formed XML"},
           {"<p/>\n<p/>", "x.xml:2", "junk after document element"},
           {"<p>\n&nbsp;</p>", "x.xml:2", "undefined entity"},
           {"<p a='1' a='2'/>", "x.xml:1", "duplicate attribute"},
           {"<p>\xFF</p>", "x.xml:1", "invalid token"},
           {"<p\n id='1'><id>2</id></p>", "x.xml:2",
            "got an attribute and an element named \"id\""},
           {"<!DOCTYPE p [<!ENTITY e 'e'>]>\n<p>&e;</p>", "x.xml:1", "document type declaration"},
           {"\n" + deep + end, "x.xml:2", "nested deeper than 32"}}) {
    EXPECT_FAILS(Parse(text), absl::StatusCode::kInvalidArgument, line, message);
  }
}

}  // namespace xml_records_test
}  // namespace braid
