#include "rpc/request_id.h"

#include <algorithm>
#include <random>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"

namespace braid {
namespace {

constexpr size_t kMaxBytes = 64;

bool IsIdCharacter(char c) {
  return absl::ascii_isalnum(static_cast<unsigned char>(c)) ||
         std::string_view("._-").find(c) != std::string_view::npos;
}

}  // namespace

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxBytes && std::ranges::all_of(text, IsIdCharacter);
}

std::string NewCallId() {
  thread_local std::mt19937_64 generator{[] {
    std::random_device device;
    return (uint64_t{device()} << 32) | device();
  }()};
  return absl::StrFormat("%016x", generator());
}

}  // namespace braid
