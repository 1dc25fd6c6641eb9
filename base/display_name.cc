#include "base/display_name.h"

#include <string>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace braid {
namespace {

bool HasControlCharacter(std::string_view text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < 0x20 || byte == 0x7F) return true;
    // U+0080 to U+009F in UTF-8.
    if (byte == 0xC2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xA0) {
      return true;
    }
  }
  return false;
}

}  // namespace

absl::Status CheckDisplayName(std::string_view name) {
  if (name.size() > kMaxNameBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: got ", name.size(), " bytes, expected at most ", kMaxNameBytes));
  }
  if (!HasControlCharacter(name)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("name: got \"",
                                                 absl::CHexEscape(std::string(name)),
                                                 "\", expected one without control characters"));
}

}  // namespace braid
