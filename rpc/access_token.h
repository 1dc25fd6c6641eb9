// The text of an access token, "braid_<id>_<secret>".
#ifndef BRAID_RPC_ACCESS_TOKEN_H_
#define BRAID_RPC_ACCESS_TOKEN_H_

#include <cstddef>
#include <string_view>

namespace braid {

inline constexpr std::string_view kTokenPrefix = "braid_";
inline constexpr size_t kTokenIdDigits = 8;

// Views into a token's text.
struct TokenParts {
  std::string_view id;
  std::string_view secret;
};

// Splits "braid_<id>_<secret>"; both parts are empty if `token` has another form.
TokenParts SplitToken(std::string_view token);

}  // namespace braid

#endif  // BRAID_RPC_ACCESS_TOKEN_H_
