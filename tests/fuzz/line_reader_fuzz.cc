// Lines of a plain text source, compared with splitting the whole text.
#include "base/check.h"
#include "pipeline/corpus/line_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

constexpr int64_t kMaxLineBytes = 64;

// Checks the line that starts at `begin` against the guarantees of LineReader.
void CheckLine(const Line& line, std::string_view text, size_t begin) {
  const size_t size = std::min(text.find('\n', begin), text.size()) - begin;
  std::string_view expected = text.substr(begin, size);
  BRAID_CHECK(line.offset == static_cast<int64_t>(begin)) << line.offset << " " << begin;
  BRAID_CHECK(line.too_long == (size > kMaxLineBytes)) << size;
  if (begin == 0 && expected.starts_with("\xEF\xBB\xBF")) expected.remove_prefix(3);
  if (!line.too_long) BRAID_CHECK(line.text == expected) << line.text;
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(line_reader)() {
  return {"a\n\nbb\r\nccc", "\xEF\xBB\xBF\n\n", std::string(64, 'x') + "\n" + std::string(65, 'y'),
          std::string(300, 'z') + "\nend\n"};
}

}  // namespace braid

int FUZZ_INPUT(line_reader)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  // With this first byte the input is not detected as compressed data.
  const std::string text = "-" + std::string(AsText(data, size));
  LineReader reader(*TextSource::Open(directory.Put("lines", text)), kMaxLineBytes);
  size_t begin = 0;
  for (Line line; *reader.Next(&line);) {
    CheckLine(line, text, begin);
    begin = std::min(text.find('\n', begin), text.size() - 1) + 1;
  }
  BRAID_CHECK(begin == text.size()) << begin << " of " << text.size();
  return 0;
}
