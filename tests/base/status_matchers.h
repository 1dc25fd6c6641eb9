// Assertions on absl::Status and absl::StatusOr that print the message on failure.
#ifndef BRAID_TESTS_BASE_STATUS_MATCHERS_H_
#define BRAID_TESTS_BASE_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

inline const absl::Status& StatusOf(const absl::Status& status) { return status; }
template <class T>
const absl::Status& StatusOf(const absl::StatusOr<T>& value) {
  return value.status();
}

inline testing::AssertionResult Succeeds(const absl::Status& status) {
  return (status.ok() ? testing::AssertionSuccess() : testing::AssertionFailure())
         << status.ToString();
}

// Returns whether the status has that code and its message contains every one of the texts.
template <class... Texts>
testing::AssertionResult Fails(const absl::Status& status, absl::StatusCode code, Texts... texts) {
  const std::string message(status.message());
  bool matches = status.code() == code;
  ((matches = matches && message.find(texts) != std::string::npos), ...);
  return (matches ? testing::AssertionSuccess() : testing::AssertionFailure()) << status.ToString();
}

}  // namespace braid

#define EXPECT_OK(expression) EXPECT_TRUE(::braid::Succeeds(::braid::StatusOf(expression)))
#define ASSERT_OK(expression) ASSERT_TRUE(::braid::Succeeds(::braid::StatusOf(expression)))
#define EXPECT_FAILS(expression, ...) \
  EXPECT_TRUE(::braid::Fails(::braid::StatusOf(expression), __VA_ARGS__))

#define BRAID_TEST_CONCAT_INNER(a, b) a##b
#define BRAID_TEST_CONCAT(a, b) BRAID_TEST_CONCAT_INNER(a, b)
#define ASSERT_OK_AND_ASSIGN(lhs, expression) \
  ASSERT_OK_AND_ASSIGN_INNER(BRAID_TEST_CONCAT(braid_value_, __LINE__), lhs, expression)
#define ASSERT_OK_AND_ASSIGN_INNER(tmp, lhs, expression) \
  auto tmp = (expression);                               \
  ASSERT_TRUE(tmp.ok()) << tmp.status().ToString();      \
  lhs = *std::move(tmp)

#endif  // BRAID_TESTS_BASE_STATUS_MATCHERS_H_
