#include "rpc/request_id.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/random_id.h"

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

std::string NewCallId() { return RandomId(16); }

std::string RequestKey(std::string_view principal, std::string_view request_id) {
  // The length keeps "a" with "b/c" apart from "a/b" with "c".
  return absl::StrCat(principal.size(), ":", std::string(principal), "/", std::string(request_id));
}

}  // namespace braid
