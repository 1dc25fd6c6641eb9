#include "client/terminal/table.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace braid {
namespace table_test {

std::string Printed(const Table& table, TableLimits limits = {}) {
  std::ostringstream out;
  table.Print(out, limits);
  return out.str();
}

TEST(TableTest, AlignsNumbersRightAndTextLeft) {
  Table table({"NAME", "COUNT", "STATE"});
  table.AddRow({"a", "7", "done"});
  table.AddRow({"longer", "1,234,567", "-"});
  table.AddRow({"short row", ""});
  EXPECT_EQ(Printed(table),
            "NAME           COUNT  STATE\n"
            "a                  7  done\n"
            "longer     1,234,567  -\n"
            "short row\n");
}

TEST(TableTest, AlignsSuffixesOfAColumn) {
  Table table({"", "VALUE"});
  table.AddRow({"a", {"100.2", " ±4.5"}});
  table.AddRow({"b", {"9.50", " ±0.25*"}});
  EXPECT_EQ(Printed(table),
            "   VALUE\n"
            "a  100.2 ±4.5\n"
            "b   9.50 ±0.25*\n");
}

// A Chinese character takes two columns on a terminal.
TEST(TableTest, CountsColumnsInsteadOfBytes) {
  Table table({"DOMAIN", "N"});
  table.AddRow({"書籍", "1"});
  table.AddRow({"é", "2"});
  EXPECT_EQ(Printed(table), "DOMAIN  N\n書籍    1\né       2\n");
  Table wide({"NAME", "N"});
  wide.AddRow({"日本語日本語", "1"});
  EXPECT_EQ(Printed(wide, {.first_column = 8}), "NAME     N\n日本~語  1\n");
}

TEST(TableTest, PrintsBlocksWithinTheWidth) {
  Table table({"ROW", "first", "second", "third"});
  table.AddRow({"a", "1", "2", "3"});
  EXPECT_EQ(Printed(table, {.width = 18}),
            "ROW  first  second\n"
            "a        1       2\n"
            "\n"
            "ROW  third\n"
            "a        3\n");
  // A column that is wider than the limit has its own block.
  EXPECT_EQ(Printed(table, {.width = 1}),
            "ROW  first\na        1\n\nROW  second\na         2\n\nROW  third\na        3\n");
}

TEST(TableTest, ShortensTheFirstColumn) {
  Table table({"NAME", "N"});
  table.AddRow({"a domain with a very long name, one", "1"});
  EXPECT_EQ(Printed(table, {.first_column = 20}),
            "NAME                  N\n"
            "a domain w~name, one  1\n");
}

TEST(TableTest, PrintsNoHeaderWhenItIsEmpty) {
  Table table({});
  table.AddRow({"empty", "2"});
  table.AddRow({"invalid json", "1,100"});
  EXPECT_EQ(Printed(table),
            "empty             2\n"
            "invalid json  1,100\n");
}

}  // namespace table_test
}  // namespace braid
