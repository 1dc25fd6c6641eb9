#include "formats/sentencepiece_model_check.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

using std::string_literals::operator""s;

// pieces = 1 {piece = 1, score = 2, type = 3}
std::string Piece(const std::string& text) {
  const std::string piece = "\x0a" + std::string(1, static_cast<char>(text.size())) + text +
                            "\x15\0\0\x80\xbf"s + "\x18\x01";
  return "\x0a" + std::string(1, static_cast<char>(piece.size())) + piece;
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(sentencepiece_model)() {
  const std::string pieces = Piece("<unk>") + Piece("<s>") + Piece("a") + Piece("bc");
  return {pieces + "\x12\x04\x20\x80\x10\x28"s + "\x1a\x02\x0a\0"s, pieces};
}

}  // namespace braid

int FUZZ_INPUT(sentencepiece_model)(const uint8_t* data, size_t size) {
  braid::CheckSentencePieceModel("fuzz", braid::AsText(data, size)).IgnoreError();
  return 0;
}
