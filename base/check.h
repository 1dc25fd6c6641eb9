// BRAID_CHECK for broken invariants: bugs of the program, never something the outside world can
// cause (that is absl::Status). Prints the condition, the source location and the values streamed
// into it, then aborts.
//
//   BRAID_CHECK(rows * columns == values.size()) << rows << "x" << columns;
#ifndef BRAID_BASE_CHECK_H_
#define BRAID_BASE_CHECK_H_

#include <cstdlib>
#include <iostream>
#include <sstream>

namespace braid {

class CheckFailure {
 public:
  CheckFailure(const char* file, int line, const char* condition) {
    message_ << file << ":" << line << ": broken invariant: " << condition << " ";
  }
  [[noreturn]] ~CheckFailure() {
    std::cerr << message_.str() << std::endl;
    std::abort();
  }
  std::ostream& stream() { return message_; }

 private:
  std::ostringstream message_;
};

// Turns the stream expression into void so that both arms of ?: agree.
struct CheckVoidify {
  void operator&(std::ostream&) {}
};

}  // namespace braid

#define BRAID_CHECK(condition) \
  (condition)                  \
      ? (void)0                \
      : ::braid::CheckVoidify() & ::braid::CheckFailure(__FILE__, __LINE__, #condition).stream()

#endif  // BRAID_BASE_CHECK_H_
