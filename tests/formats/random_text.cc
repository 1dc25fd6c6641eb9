#include "tests/formats/random_text.h"

#include <iterator>

namespace braid {
namespace {

const char* const kWords[] = {"the",   "segment", "router", "expert", "int",    "return", "void",
                              "merge", "token",   "über",   "naïve",  "const",  "std::",  "loss",
                              "(x)",   "{",       "}",      "1234",   "weight", "日本"};

}  // namespace

std::string RandomLines(uint64_t seed, int num_lines) {
  std::mt19937_64 random(seed);
  std::string text;
  for (int line = 0; line < num_lines; ++line) {
    text.append(2 * (random() % 4), ' ');
    for (int word = 0; word < 8; ++word) {
      text += kWords[random() % std::size(kWords)];
      text += std::string(1, static_cast<char>('a' + random() % 26)) + " ";
    }
    text += random() % 7 == 0 ? "\n\n" : "\n";
  }
  return text;
}

void AppendUtf8(uint32_t c, std::string* out) {
  if (c < 0x80) {
    out->push_back(static_cast<char>(c));
  } else if (c < 0x800) {
    out->push_back(static_cast<char>(0xC0 | (c >> 6)));
    out->push_back(static_cast<char>(0x80 | (c & 63)));
  } else if (c < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | (c >> 12)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 63)));
    out->push_back(static_cast<char>(0x80 | (c & 63)));
  } else {
    out->push_back(static_cast<char>(0xF0 | (c >> 18)));
    out->push_back(static_cast<char>(0x80 | ((c >> 12) & 63)));
    out->push_back(static_cast<char>(0x80 | ((c >> 6) & 63)));
    out->push_back(static_cast<char>(0x80 | (c & 63)));
  }
}

std::string RandomText(std::mt19937_64& random) {
  static const std::string kParts[] = {
      " ",   "  ",   "\n",    "\t",     "\r\n",         "\xE2\x96\x81", "\xE2\x96\x85",
      "<s>", "</s>", "<unk>", "<0x0A>", "\xEF\xBB\xBF", "the"};
  std::string text;
  const int length = static_cast<int>(random() % 40);
  for (int i = 0; i < length; ++i) {
    if (random() % 3 == 0) {
      uint32_t c = static_cast<uint32_t>(random() % (random() % 2 == 0 ? 0x300 : 0x110000));
      if (c >= 0xD800 && c < 0xE000) c = 0;
      AppendUtf8(c, &text);
    } else {
      text += random() % 2 == 0 ? kParts[random() % std::size(kParts)]
                                : kWords[random() % std::size(kWords)];
    }
  }
  return text;
}

std::string RandomPieces(std::mt19937_64& random) {
  static constexpr const char* kParts[] = {
      " ",      "  ",     "\n",     "\r\n",       "\t",      "\u00a0",  "\u2028",
      "\x01",   "\u200d", "\u3042", "\u30fb",     "\u9fa5",  "\u9fa6",  "\u3041",
      "\v",     "\u0085", "'s",     "'RE",        "'\u017f", "'",       "'ll",
      "a",      "Word",   "UP",     "\u01c5",     "\u02b0",  "\u4e2d",  "\u0301",
      "\u0903", "1",      "2345",   "\u00bd",     "\u0663",  ".",       "/",
      "//\n",   "--",     "\u20ac", "\U0001f600", "\u00e9",  "e\u0301", "_"};
  std::string text;
  for (auto n = random() % 24; n > 0; --n) {
    if (random() % 8 == 0) {
      const uint32_t point = static_cast<uint32_t>(random() % 0x110000);
      if (point < 0xD800 || point >= 0xE000) AppendUtf8(point, &text);
    } else {
      text += kParts[random() % std::size(kParts)];
    }
  }
  return text;
}

}  // namespace braid
