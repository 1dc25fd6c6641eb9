#include "base/field_digest.h"

#include <gtest/gtest.h>

#include <initializer_list>

namespace braid {
namespace field_digest_test {

std::string DigestOf(std::initializer_list<std::string_view> fields) {
  FieldDigest digest;
  for (const std::string_view field : fields) digest.Add(field);
  return digest.Hex();
}

TEST(FieldDigestTest, IsTheSameForTheSameFields) {
  EXPECT_EQ(DigestOf({"id", "text"}), DigestOf({"id", "text"}));
  EXPECT_EQ(DigestOf({"id", "text"}).size(), 32u);
  EXPECT_EQ(DigestOf({"id", "text"}).find_first_not_of("0123456789abcdef"), std::string::npos);
}

TEST(FieldDigestTest, DistinguishesFieldBoundaries) {
  const std::string digest = DigestOf({"ab", "c"});
  for (const auto& other : {DigestOf({"a", "bc"}), DigestOf({"abc"}), DigestOf({"c", "ab"}),
                            DigestOf({"ab", "c", ""}), DigestOf({"ab", "d"}), DigestOf({})}) {
    EXPECT_NE(other, digest);
  }
}

TEST(FieldDigestTest, ContinuesAfterItWasRead) {
  FieldDigest digest;
  digest.Add("a");
  EXPECT_EQ(digest.Hex(), DigestOf({"a"}));
  digest.Add("b");
  EXPECT_EQ(digest.Hex(), DigestOf({"a", "b"}));
}

}  // namespace field_digest_test
}  // namespace braid
