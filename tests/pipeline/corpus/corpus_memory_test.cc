// Reading a corpus never takes more memory than the limit on a record allows.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "absl/strings/str_cat.h"
#include "formats/indexed_dataset.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/base/crafted_files.h"
#include "tests/formats/tiny_tokenizer_json.h"

namespace braid {
namespace corpus_memory_test {

constexpr int64_t kMebibyte = int64_t{1} << 20;
constexpr char kGood[] = "{\"text\": \"good\"}\n";

// Returns the peak resident memory of this process in bytes; 0 where the kernel does not report it.
int64_t PeakResidentBytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("VmHWM:")) return std::stoll(line.substr(6)) * 1024;
  }
  return 0;
}

// Resets the peak to the current resident memory.
bool ForgetPeak() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

struct Reading {
  int64_t num_documents = 0;
  int64_t num_rejects = 0;
  int64_t growth = 0;  // for resident memory at its peak, in bytes
  std::string last_reason;
};

Reading ReadAll(const std::filesystem::path& path, const v1::IngestConfig& config = {},
                const std::string& tokenizer = "") {
  Reading reading;
  EXPECT_TRUE(ForgetPeak());
  const int64_t before = PeakResidentBytes();
  const auto reader =
      CorpusReader::Open(std::vector<std::string>{path.string()}, config, nullptr, tokenizer);
  EXPECT_TRUE(reader.ok()) << reader.status();
  Document document;
  for (CorpusStep step = CorpusStep::kNoneYet; step != CorpusStep::kEnd;) {
    std::vector<Reject> rejects;
    const auto next = (*reader)->Next(&document, &rejects);
    EXPECT_TRUE(next.ok()) << next.status();
    step = next.value_or(CorpusStep::kEnd);
    reading.num_documents += step == CorpusStep::kDocument ? 1 : 0;
    reading.num_rejects += std::ssize(rejects);
    if (!rejects.empty()) reading.last_reason = rejects.back().reason;
  }
  reading.growth = PeakResidentBytes() - before;
  std::cout << path.filename().string() << ": " << reading.growth / kMebibyte << " MiB\n";
  return reading;
}

class CorpusMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
#if defined(BRAID_ASAN) || defined(BRAID_TSAN)
    GTEST_SKIP() << "sanitizers use additional memory";
#endif
  }
  const CraftedFiles files_;
};

TEST_F(CorpusMemoryTest, SkipsALineOfAGibibyte) {
  const auto path = files_.Write("sparse.jsonl", kGood);
  std::filesystem::resize_file(path, 1024 * kMebibyte);
  std::ofstream(path, std::ios::app) << "\n{\"text\": \"after\"}\n";
  const Reading reading = ReadAll(path);
  EXPECT_EQ(reading.num_documents, 2);
  EXPECT_EQ(reading.num_rejects, 1);
  EXPECT_EQ(reading.last_reason, "too long");
  EXPECT_LT(reading.growth, 192 * kMebibyte);
}

TEST_F(CorpusMemoryTest, SkipsACompressedLineOfAGibibyte) {
  // Compressed 400 to 1, which is below the limit for a bomb.
  const std::string words = RandomLines(5, 4000);
  std::string mebibyte;
  while (std::ssize(mebibyte) < kMebibyte) mebibyte += words;
  for (char& c : mebibyte) c = c == '\n' ? ' ' : c;
  const std::string frame = Zstd(mebibyte);
  std::string bytes = Zstd(kGood);
  for (int i = 0; i < 1024; ++i) bytes += frame;
  bytes += Zstd("\n{\"text\": \"after\"}\n");
  const Reading reading = ReadAll(files_.Write("line.jsonl.zst", bytes));
  EXPECT_EQ(reading.num_documents, 2);
  EXPECT_EQ(reading.last_reason, "too long");
  EXPECT_LT(reading.growth, 192 * kMebibyte);
}

TEST_F(CorpusMemoryTest, ParsesTheDensestRecordAllowed) {
  std::string record = "{\"text\": \"a\", \"b\": [0";
  while (std::ssize(record) < 64 * kMebibyte) record += ",0";
  const Reading reading = ReadAll(files_.Write("dense.jsonl", record + "]}\n"));
  EXPECT_EQ(reading.num_documents, 1);
  EXPECT_LT(reading.growth, 16 * 64 * kMebibyte) << "the bound in corpus_reader.h";
}

// A file of some hundred bytes has a list of 2^26 nulls.
TEST_F(CorpusMemoryTest, AListThatAFilterReadsDoesNotExpandBeyondTheLimit) {
  files_.Write("lists/a.jsonl", "{\"text\": \"good\", \"v\": 1}\n");
  const auto path = files_.directory() / "lists";
  std::filesystem::copy(BRAID_TESTS_DIR "/formats/parquet/bombs/lists.parquet", path);
  ASSERT_LT(std::filesystem::file_size(path / "lists.parquet"), 500u);
  v1::IngestConfig config;
  config.set_where("not v is null");
  const Reading reading = ReadAll(path, config);
  EXPECT_EQ(reading.num_documents, 1);
  EXPECT_EQ(reading.last_reason, "decompression bomb");
  EXPECT_LT(reading.growth, 64 * kMebibyte);
}

// An index without document boundaries makes one document of all tokens.
TEST_F(CorpusMemoryTest, RejectsADocumentOfAQuarterOfABillionTokens) {
  const int64_t num_tokens = 256 * kMebibyte;
  const auto tokenizer = files_.Write("tokenizer.json", TinyTokenizerJson({}));
  const auto bin = files_.Write("all.bin", std::string(16, 'a'));
  std::string index(kIndexedDatasetMagic);
  const auto append = [&](auto value) {
    index.append(reinterpret_cast<const char*>(&value), sizeof(value));
  };
  append(kIndexedDatasetVersion);
  append(TokenType::kUint8);
  append(uint64_t{2});  // sequences
  append(uint64_t{3});  // ends of documents, and a 0 before them
  append(int32_t{16});
  append(static_cast<int32_t>(num_tokens));
  for (const int64_t value : {0, 16, 0, 1, 2}) append(value);
  files_.Write("all.idx", index);
  std::filesystem::resize_file(bin, 16 + num_tokens);
  const Reading reading = ReadAll(bin, {}, tokenizer.string());
  EXPECT_EQ(reading.num_documents, 1);
  EXPECT_EQ(reading.last_reason, "too long");
  EXPECT_LT(reading.growth, 64 * kMebibyte);
}

TEST_F(CorpusMemoryTest, ReturnsRejectsInBoundedSteps) {
  std::string lines = kGood;
  for (int i = 0; i < 3'000'000; ++i) lines += "1\n";
  const Reading reading = ReadAll(files_.Write("rejects.jsonl", lines));
  EXPECT_EQ(reading.num_rejects, 3'000'000);
  EXPECT_LT(reading.growth, 8 * kMebibyte);
}

}  // namespace corpus_memory_test
}  // namespace braid
