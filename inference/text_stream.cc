#include "inference/text_stream.h"

#include "base/utf8.h"

namespace braid {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr int kMaxPendingBytes = 3;

size_t WithoutCutCodePoint(std::string_view text) {
  size_t lead = text.size();
  for (int back = 0; back < 4 && lead > 0; ++back) {
    if (!IsContinuationByte(text[--lead])) {
      return lead + EncodedLength(text[lead]) > text.size() ? lead : text.size();
    }
  }
  return text.size();
}

}  // namespace

size_t StableLength(std::string_view text) {
  text = text.substr(0, WithoutCutCodePoint(text));
  for (int i = 0; i < kMaxPendingBytes && text.ends_with(kReplacement); ++i) {
    text.remove_suffix(kReplacement.size());
  }
  return text.size();
}

std::string TextStream::Take(std::string_view text, size_t end) {
  if (end <= begin_) return "";
  std::string part(text.substr(begin_, end - begin_));
  begin_ = end;
  return part;
}

}  // namespace braid
