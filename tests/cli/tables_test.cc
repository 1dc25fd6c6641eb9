#include "cli/tables.h"

#include <gtest/gtest.h>

#include <sstream>

namespace braid {
namespace {

TEST(TablesTest, NumbersAlignRightAndTextLeft) {
  std::ostringstream out;
  PrintTable({{"NAME", "COUNT"}, {"a", "7"}, {"longer", "1,234"}}, out);
  EXPECT_EQ(out.str(),
            "NAME    COUNT\n"
            "a           7\n"
            "longer  1,234\n");
}

TEST(TablesTest, ThousandsAreSeparated) {
  EXPECT_EQ(WithThousands(7), "7");
  EXPECT_EQ(WithThousands(1234), "1,234");
  EXPECT_EQ(WithThousands(1234567890), "1,234,567,890");
  EXPECT_EQ(WithThousands(-1234), "-1,234");
  EXPECT_EQ(WithThousands(-123), "-123");
}

}  // namespace
}  // namespace braid
