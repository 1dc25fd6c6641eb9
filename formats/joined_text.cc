#include "formats/joined_text.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"

namespace braid {

JoinedTokens EncodeJoined(absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode,
                          std::string_view context, std::span<const std::string> continuations) {
  std::string kept(context);
  absl::StripTrailingAsciiWhitespace(&kept);
  const std::string whole_context(context);
  JoinedTokens joined;
  joined.context = encode(kept);
  for (const std::string& continuation : continuations) {
    std::vector<int32_t> whole = encode(whole_context + continuation);
    const size_t begin = std::min(joined.context.size(), whole.empty() ? 0 : whole.size() - 1);
    whole.erase(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(begin));
    joined.continuations.push_back(std::move(whole));
  }
  return joined;
}

JoinedTokens EncodeExactly(absl::FunctionRef<std::vector<int32_t>(std::string_view)> encode,
                           std::string_view context, const std::string& continuation) {
  std::string kept(context);
  absl::StripTrailingAsciiWhitespace(&kept);
  JoinedTokens joined;
  joined.context = encode(kept);
  const std::vector<int32_t> whole = encode(std::string(context) + continuation);
  const auto [end, rest] = std::ranges::mismatch(joined.context, whole);
  joined.context.erase(end, joined.context.end());
  joined.continuations.emplace_back(rest, whole.end());
  return joined;
}

}  // namespace braid
