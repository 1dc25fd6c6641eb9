// Jobs with a filter and with vectors of the corpus, killed at any point of ingest and embed,
// resume to the same bytes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/pipeline/jobs/faulty_job.h"
#include "tests/pipeline/jobs/generated_corpus.h"
#include "tests/pipeline/jobs/uninterrupted_job_test.h"

namespace braid {
namespace killed_ingest_test {

namespace fs = std::filesystem;

// Writes the generated corpus with a number and a vector in each record; some vectors are bad.
void AddFields(const fs::path& corpus, const fs::path& out_path) {
  std::ifstream in(corpus);
  std::ofstream out(out_path);
  std::string line;
  for (int number = 0; std::getline(in, line); ++number) {
    auto record = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (record.is_object()) {
      record["number"] = number;
      record["vector"] = {number % 17 - 8, number % 5, number % 23 == 0 ? 0 : 1};
      if (number % 31 == 7) record["vector"] = {0, 0, 0};
      line = record.dump();
    }
    out << line << "\n";
  }
}

TEST(KilledIngestTest, ReachesTheSameBytesWithAFilterAndVectorsOfTheCorpus) {
  const fs::path directory = NewDirectory();
  WriteCorpus(directory / "plain.jsonl");
  AddFields(directory / "plain.jsonl", directory / "vectors.jsonl");
  v1::CorpusSpec spec = SmallSpec(directory / "vectors.jsonl");
  spec.mutable_embedder()->Clear();
  spec.mutable_ingest()->set_embedding_field("vector");
  spec.mutable_ingest()->set_where("number < 100 or not number in (120, 130, 140)");
  const fs::path home = NewDirectory();
  const JobOutcome whole = RunJobInChild(home, spec, kChunkBytes, {});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const auto contents = StoreContents(home);
  std::vector<int64_t> calls;
  for (size_t i = 0; i < whole.calls.size(); ++i) {
    const std::string stage = StageOfCall(whole.calls[i]);
    if (stage == "ingest" || stage == "embed") calls.push_back(static_cast<int64_t>(i) + 1);
  }
  ASSERT_GT(calls.size(), 24u);
  const auto saved = [&](const std::string& stage) {
    return std::ranges::count_if(whole.points,
                                 [&](const auto& point) { return point.starts_with(stage); });
  };
  EXPECT_GE(saved("ingest "), 5);
  EXPECT_GE(saved("embed "), 5);
  for (size_t i = 0; i < 16; ++i) {
    const int64_t call = calls[i * calls.size() / 16];
    SCOPED_TRACE(whole.calls[static_cast<size_t>(call) - 1]);
    const fs::path other = NewDirectory();
    EXPECT_TRUE(RunJobInChild(other, spec, kChunkBytes, {.call = call}).killed);
    const JobOutcome rest = RunJobInChild(other, spec, kChunkBytes, {});
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    ASSERT_TRUE(StoreContents(other) == contents);
    fs::remove_all(other);
  }
}

TEST(KilledIngestTest, KeepsItsPlaceWhereAFilterKeepsNothing) {
  constexpr int kDropped = 200000;  // more than are read between two reports
  const fs::path directory = NewDirectory(), corpus = directory / "filtered.jsonl";
  WriteCorpus(directory / "plain.jsonl");
  AddFields(directory / "plain.jsonl", directory / "numbered.jsonl");
  std::ofstream out(corpus);
  for (int i = 0; i < kDropped; ++i)
    out << R"({"text": "dropped", "number": -1})"
        << "\n";
  out << std::ifstream(directory / "numbered.jsonl").rdbuf();
  out.close();
  v1::CorpusSpec spec = SmallSpec(corpus);
  spec.mutable_ingest()->set_where("number >= 0");
  const fs::path home = NewDirectory(), other = NewDirectory();
  const JobOutcome whole = RunJobInChild(home, spec, kChunkBytes, {});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const auto without_documents = std::ranges::count_if(whole.points, [](const auto& point) {
    return point.starts_with("ingest ") && point.ends_with(" 0");
  });
  EXPECT_GE(without_documents, 2);
  const auto saved = std::ranges::find_if(whole.calls, [](const auto& call) {
    return call.starts_with("rename ") && call.ends_with("resume.json");
  });
  ASSERT_NE(saved, whole.calls.end());
  const int64_t call = saved - whole.calls.begin() + 2;  // the first one with a point saved
  EXPECT_TRUE(RunJobInChild(other, spec, kChunkBytes, {.call = call}).killed);
  const JobOutcome rest = RunJobInChild(other, spec, kChunkBytes, {});
  ASSERT_TRUE(rest.status.ok()) << rest.status;
  EXPECT_TRUE(StoreContents(other) == StoreContents(home));
}

// Every row group boundary and every row is a place to resume at, in files of several codecs.
TEST(KilledIngestTest, ReachesTheSameBytesFromParquetFiles) {
  const fs::path golden = fs::path(BRAID_TESTS_DIR) / "formats/parquet/golden";
  v1::CorpusSpec spec = SmallSpec(golden / "zstd-1.parquet");
  for (const char* name : {"gzip-2.parquet", "encodings-1.parquet", "snappy-2.parquet"}) {
    spec.add_paths((golden / name).string());
  }
  spec.mutable_ingest()->set_id_field("none");
  // The files hold the same few hundred bytes of text.
  spec.mutable_tokenizer()->set_vocab_size(300);
  spec.mutable_pack()->set_sequence_length(64);
  const fs::path home = NewDirectory();
  const JobOutcome whole = RunJobInChild(home, spec, kChunkBytes / 8, {});
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const auto contents = StoreContents(home);
  std::vector<int64_t> calls;
  for (size_t i = 0; i < whole.calls.size(); ++i) {
    if (StageOfCall(whole.calls[i]) == "ingest") calls.push_back(static_cast<int64_t>(i) + 1);
  }
  ASSERT_GT(calls.size(), 8u);
  for (size_t i = 0; i < 8; ++i) {
    const int64_t call = calls[i * calls.size() / 8];
    SCOPED_TRACE(whole.calls[static_cast<size_t>(call) - 1]);
    const fs::path other = NewDirectory();
    EXPECT_TRUE(RunJobInChild(other, spec, kChunkBytes / 8, {.call = call}).killed);
    const JobOutcome rest = RunJobInChild(other, spec, kChunkBytes / 8, {});
    ASSERT_TRUE(rest.status.ok()) << rest.status;
    ASSERT_TRUE(StoreContents(other) == contents);
    fs::remove_all(other);
  }
}

}  // namespace killed_ingest_test
}  // namespace braid
