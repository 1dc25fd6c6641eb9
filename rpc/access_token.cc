#include "rpc/access_token.h"

namespace braid {

TokenParts SplitToken(std::string_view token) {
  if (!token.starts_with(kTokenPrefix)) return {};
  token.remove_prefix(kTokenPrefix.size());
  if (token.size() <= kTokenIdDigits + 1 || token[kTokenIdDigits] != '_') return {};
  return {token.substr(0, kTokenIdDigits), token.substr(kTokenIdDigits + 1)};
}

}  // namespace braid
