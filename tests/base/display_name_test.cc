#include "base/display_name.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/base/status_matchers.h"

namespace braid {
namespace display_name_test {

using absl::StatusCode;

TEST(CheckDisplayNameTest, AcceptsTextOfOneLine) {
  for (const std::string name : {"", "run 1", "caf\xC3\xA9 \xE6\x96\x87", "a/b@12"}) {
    EXPECT_OK(CheckDisplayName(name));
  }
  EXPECT_OK(CheckDisplayName(std::string(kMaxNameBytes, 'x')));
}

TEST(CheckDisplayNameTest, RefusesLongNames) {
  EXPECT_FAILS(CheckDisplayName(std::string(kMaxNameBytes + 1, 'x')), StatusCode::kInvalidArgument,
               "name: got 201 bytes, expected at most 200");
}

TEST(CheckDisplayNameTest, RefusesControlCharacters) {
  EXPECT_FAILS(CheckDisplayName("a\nb\x1b[31mX"), StatusCode::kInvalidArgument,
               "\"a\\nb\\x1b[31mX\"", "control characters");
  for (const std::string& name :
       {std::string("\0", 1), std::string("\t"), std::string("\x7f"), std::string("\xC2\x9B")}) {
    EXPECT_FAILS(CheckDisplayName(name), StatusCode::kInvalidArgument, "name: got");
  }
}

}  // namespace display_name_test
}  // namespace braid
