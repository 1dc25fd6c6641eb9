# cmake -DINPUT=settings.descriptors -DOUTPUT=embedded_settings.cc -P embed_settings.cmake
# Writes the C++ file that defines EmbeddedSettings(), the bytes of INPUT.
file(READ "${INPUT}" bytes HEX)
string(REGEX REPLACE "(................................)" "\\1\n" bytes "${bytes}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
file(WRITE "${OUTPUT}" "#include <span>

namespace braid {

std::span<const unsigned char> EmbeddedSettings();

std::span<const unsigned char> EmbeddedSettings() {
  static constexpr unsigned char kBytes[] = {
${bytes}};
  return kBytes;
}

}  // namespace braid
")
