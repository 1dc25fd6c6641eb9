#include "pipeline/corpus/text_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "pipeline/corpus/line_reader.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace text_source_test {

using ::testing::HasSubstr;

absl::StatusOr<std::string> ReadAll(const std::filesystem::path& path, size_t chunk_bytes,
                                    const ExpansionLimit& limit = {}) {
  auto source = TextSource::Open(path, limit);
  if (!source.ok()) return source.status();
  std::string text;
  std::vector<char> chunk(chunk_bytes);
  while (true) {
    const absl::StatusOr<size_t> size = (*source)->Read(chunk);
    if (!size.ok()) return size.status();
    if (*size == 0) return text;
    text.append(chunk.data(), *size);
  }
}

TEST(TextSourceTest, ReadsEveryCompressionInChunksOfAnySize) {
  const std::string text = RandomLines(7, 900'000);
  const CraftedFiles files;
  const auto plain = files.Write("a.txt", text);
  const auto gzip = files.Write("a.gz", Gzip(text));
  const auto zstd = files.Write("a.zst", Zstd(text));
  for (const auto& path : {plain, gzip, zstd}) {
    for (const size_t chunk : {size_t{1}, size_t{1000}, size_t{1} << 20}) {
      if (chunk == 1 && path == plain) continue;
      ASSERT_EQ(*ReadAll(path, chunk), text) << path << " by " << chunk;
    }
  }
}

TEST(TextSourceTest, ConcatenatesMembersAndFrames) {
  const CraftedFiles files;
  std::string text, gzip, zstd;
  for (int i = 0; i < 5; ++i) {
    const std::string part = RandomLines(i, i == 2 ? 0 : 300'000);
    text += part;
    gzip += Gzip(part);
    zstd += Zstd(part) + std::string("\x50\x2a\x4d\x18\x03\0\0\0abc", 11);  // a skippable frame
  }
  EXPECT_EQ(*ReadAll(files.Write("m.gz", gzip), 4096), text);
  EXPECT_EQ(*ReadAll(files.Write("padded.gz", gzip + std::string(512, '\0')), 4096), text);
  EXPECT_EQ(*ReadAll(files.Write("m.zst", zstd), 4096), text);
}

// Headers and trailers of such small members lie across the ends of the reader's buffer in every
// way.
TEST(TextSourceTest, ConcatenatesTinyMembers) {
  const CraftedFiles files;
  std::string text, gzip;
  for (int i = 0; i < 60'000; ++i) {
    const std::string part(static_cast<size_t>(i % 7), static_cast<char>('a' + i % 26));
    text += part;
    gzip += Gzip(part);
  }
  ASSERT_GT(gzip.size(), size_t{1} << 20);
  EXPECT_EQ(*ReadAll(files.Write("tiny.gz", gzip), 4096), text);
}

TEST(TextSourceTest, ReportsEveryTruncation) {
  const CraftedFiles files;
  const std::string text = RandomLines(1, 2000);
  for (const std::string& whole : {Gzip(text), Zstd(text)}) {
    for (size_t size = 4; size < whole.size(); size += 7) {
      const auto path = files.Write("cut", whole.substr(0, size));
      const absl::Status status = ReadAll(path, 500).status();
      ASSERT_EQ(status.code(), absl::StatusCode::kDataLoss) << size << " of " << whole.size();
      ASSERT_THAT(std::string(status.message()), HasSubstr("cut short"));
    }
  }
}

TEST(TextSourceTest, ReportsDamage) {
  const CraftedFiles files;
  std::string gzip = Gzip(RandomLines(1, 200'000));
  gzip[gzip.size() / 2] ^= 0x55;
  EXPECT_EQ(ReadAll(files.Write("bad.gz", gzip), 500).status().code(), absl::StatusCode::kDataLoss);
  std::string checksum = Gzip("text\n");
  checksum[checksum.size() - 8] ^= 1;
  EXPECT_THAT(std::string(ReadAll(files.Write("sum.gz", checksum), 500).status().message()),
              HasSubstr("checksum"));
  const absl::Status garbage =
      ReadAll(files.Write("tail.gz", Gzip("text\n") + "garbage"), 500).status();
  EXPECT_EQ(garbage.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(garbage.message()), HasSubstr("tail.gz"));
}

TEST(TextSourceTest, RefusesACompressedNameWithoutCompressedContent) {
  const CraftedFiles files;
  const absl::Status status = TextSource::Open(files.Write("x.jsonl.gz", "{}\n")).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("7b7d0a"));
  EXPECT_FALSE(TextSource::Open(files.Write("empty.zst", "")).ok());
}

TEST(TextSourceTest, StopsDecompressionBombs) {
  const CraftedFiles files;
  const std::string zeros(8 << 20, ' ');
  const ExpansionLimit limit = {.min_bytes = 1 << 20, .max_ratio = 100};
  for (const auto& path : {files.Write("b.gz", Gzip(zeros)), files.Write("b.zst", Zstd(zeros))}) {
    const absl::Status status = ReadAll(path, 1 << 16, limit).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_TRUE(ReadAll(path, 1 << 16).ok());
  }
}

TEST(LineReaderTest, ReturnsLinesAndTheirOffsets) {
  const CraftedFiles files;
  std::string text =
      "\xEF\xBB\xBF"
      "first\n\n" +
      std::string(700'000, 'x') + "\nlast";
  LineReader reader(*TextSource::Open(files.Write("l.txt", text)), 1 << 20);
  std::vector<std::pair<size_t, int64_t>> lines;
  Line line;
  while (*reader.Next(&line)) lines.emplace_back(line.text.size(), line.offset);
  EXPECT_THAT(lines, testing::ElementsAre(std::pair(5, 0), std::pair(0, 9), std::pair(700'000, 10),
                                          std::pair(4, 700'011)));
}

TEST(LineReaderTest, SkipsLinesOverTheLimitAndContinues) {
  const CraftedFiles files;
  const std::string text = "a\n" + std::string(3'000'000, 'x') + "\nb\n" + std::string(101, 'y');
  LineReader reader(*TextSource::Open(files.Write("l.txt", text)), 100);
  std::vector<std::pair<std::string, bool>> lines;
  Line line;
  while (*reader.Next(&line)) lines.emplace_back(line.text, line.too_long);
  EXPECT_THAT(lines, testing::ElementsAre(std::pair("a", false), std::pair("", true),
                                          std::pair("b", false), std::pair("", true)));
}

// Otherwise a job could not be cancelled while it skips a line of many gigabytes.
TEST(LineReaderTest, ReturnsWhileItSkipsALongLine) {
  const CraftedFiles files;
  const auto path = files.Write("l.txt", "a\n");
  std::filesystem::resize_file(path, 2 + (int64_t{100} << 20));  // zeros
  LineReader reader(*TextSource::Open(path), 1 << 20);
  Line line;
  ASSERT_TRUE(*reader.Next(&line));
  EXPECT_EQ(line.text, "a");
  int num_parts = 0;
  for (int64_t before = 2; *reader.Next(&line) && line.unfinished; before = reader.offset()) {
    ++num_parts;
    EXPECT_LE(reader.offset() - before, int64_t{18} << 20);
    EXPECT_FALSE(line.too_long);
  }
  EXPECT_GE(num_parts, 5);
  EXPECT_TRUE(line.too_long);
  EXPECT_EQ(line.offset, 2);
  EXPECT_FALSE(*reader.Next(&line));
}

TEST(LineReaderTest, AgreesWithSplittingTheWholeText) {
  const CraftedFiles files;
  const std::string text = RandomLines(11, 2'000'000);
  LineReader reader(*TextSource::Open(files.Write("l.zst", Zstd(text))), 1 << 20);
  std::string joined;
  Line line;
  while (*reader.Next(&line)) {
    ASSERT_EQ(line.offset, static_cast<int64_t>(joined.size()));
    joined += std::string(line.text) + "\n";
  }
  EXPECT_EQ(joined, text);
}

}  // namespace text_source_test
}  // namespace braid
