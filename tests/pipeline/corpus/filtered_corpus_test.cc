// Reading with ingest.where and ingest.embedding_field, of JSON lines, Parquet and text files.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/base/crafted_files.h"

namespace braid {
namespace filtered_corpus_test {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Pair;
using ::testing::UnorderedElementsAre;

// Written by tests/peers/parquet_golden.py.
const std::filesystem::path kGolden = BRAID_TESTS_DIR "/formats/parquet/golden";

struct Corpus {
  absl::Status status;
  std::vector<std::string> ids;
  std::vector<std::vector<float>> vectors;
  std::map<std::string, int64_t> rejects;
  int64_t num_filtered = 0;
  int64_t num_records = 0;
  std::string message() const { return std::string(status.message()); }
};

void ReadRest(CorpusReader& reader, Corpus* corpus) {
  Document document;
  std::vector<Reject> rejects;
  while (true) {
    const absl::StatusOr<CorpusStep> step = reader.Next(&document, &rejects);
    corpus->status = step.status();
    if (!step.ok() || *step == CorpusStep::kEnd) break;
    if (*step != CorpusStep::kDocument) continue;
    corpus->ids.push_back(document.id);
    corpus->vectors.push_back(document.embedding);
  }
  corpus->rejects = reader.reject_counts();
  corpus->num_filtered = reader.num_filtered();
  corpus->num_records = reader.num_records();
}

Corpus Read(const std::filesystem::path& path, const v1::IngestConfig& config) {
  Corpus corpus;
  const auto reader = CorpusReader::Open(std::vector<std::string>{path.string()}, config);
  corpus.status = reader.status();
  if (reader.ok()) ReadRest(**reader, &corpus);
  return corpus;
}

v1::IngestConfig Where(const std::string& expression) {
  v1::IngestConfig config;
  config.set_where(expression);
  return config;
}

v1::IngestConfig Vectors(const std::string& field) {
  v1::IngestConfig config;
  config.set_embedding_field(field);
  return config;
}

// Reads again with a second reader after each document of the first one.
void ExpectResumesEverywhere(const std::filesystem::path& path, const v1::IngestConfig& config) {
  const std::vector<std::string> paths = {path.string()};
  const Corpus whole = Read(path, config);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  for (size_t count = 1; count <= whole.ids.size(); ++count) {
    const auto first = CorpusReader::Open(paths, config).value();
    Corpus resumed;
    while (resumed.ids.size() < count) {
      Document document;
      std::vector<Reject> rejects;
      const auto step = first->Next(&document, &rejects);
      ASSERT_TRUE(step.ok()) << step.status();
      if (*step == CorpusStep::kDocument) resumed.ids.push_back(document.id);
    }
    const auto position = first->position();
    ASSERT_TRUE(position.has_value());
    const auto second = CorpusReader::Open(paths, config).value();
    ASSERT_TRUE(
        second->Resume(*position, first->TakeIdHashes(), [] { return absl::OkStatus(); }).ok());
    ReadRest(*second, &resumed);
    EXPECT_EQ(resumed.ids, whole.ids) << "after " << count;
    EXPECT_EQ(resumed.rejects, whole.rejects);
    EXPECT_EQ(resumed.num_filtered, whole.num_filtered);
    EXPECT_EQ(resumed.num_records, whole.num_records);
  }
}

TEST(FilteredCorpusTest, KeepsJsonRecordsForWhichTheExpressionIsTrue) {
  const CraftedFiles files;
  const auto path =
      files.Write("a.jsonl", R"({"id": "a", "text": "x", "score": 0.9, "meta": {"lang": "en"}}
{"id": "b", "text": "x", "score": 0.9, "meta": {"lang": "de"}}
{"id": "c", "text": "x", "score": 0.7, "meta": {"lang": "en"}}
{"id": "d", "text": "x", "score": null, "meta": {"lang": "en"}}
{"id": "e", "text": "x", "meta": {"lang": "en"}}
{"id": "f", "text": "", "score": 0.1, "meta": {"lang": "en"}}
{"id": "g", "text": "", "score": 1, "meta": {"lang": "en"}}
{"id": "h", "text": "x", "score": "high", "meta": {"lang": "en"}}
{"id": "i", "text": "x", "score": [1], "meta": {"lang": "en"}}
not json
{"id": "j", "text": "x", "score": 1, "meta": {"lang": "en"}}
)");
  const Corpus corpus = Read(path, Where("score > 0.8 and meta.lang = 'en'"));
  ASSERT_TRUE(corpus.status.ok()) << corpus.status;
  EXPECT_THAT(corpus.ids, ElementsAre("a", "j"));
  EXPECT_EQ(corpus.num_filtered, 5) << "b, c, d, e and f, whose text does not matter then";
  EXPECT_THAT(corpus.rejects,
              UnorderedElementsAre(Pair("empty", 1), Pair("filter type mismatch", 2),
                                   Pair("invalid json", 1)));
  EXPECT_EQ(corpus.num_records, 11);
  ExpectResumesEverywhere(path, Where("score > 0.8 and meta.lang = 'en'"));
}

TEST(FilteredCorpusTest, FirstRecordMustHaveTheFields) {
  const CraftedFiles files;
  const auto path = files.Write("a.jsonl", "{\"text\": \"x\", \"language_score\": 1}\n");
  const Corpus wrong = Read(path, Where("langauge_score > 0.8"));
  EXPECT_EQ(wrong.status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* part :
       {"a.jsonl", "byte 0", "ingest.where", "langauge_score", "did you mean \"language_score\""}) {
    EXPECT_THAT(wrong.message(), HasSubstr(part));
  }
  EXPECT_THAT(Read(path, Where("spam is null or spam = false")).ids.size(), 1u)
      << "a field that is compared with null may be absent";
  const Corpus none = Read(path, Where("language_score > 2"));
  EXPECT_THAT(none.message(), HasSubstr("1 not kept by ingest.where"));
  EXPECT_THAT(Read(path, Where("language_score >")).message(), HasSubstr("ingest.where: at byte"));
}

TEST(FilteredCorpusTest, FieldsOfTextFilesAreNull) {
  const CraftedFiles files;
  files.Write("in/a.txt", "text");
  files.Write("in/b.jsonl", "{\"text\": \"x\", \"id\": \"b\", \"n\": 1}\n");
  const Corpus corpus = Read(files.directory() / "in", Where("n = 1"));
  EXPECT_THAT(corpus.ids, ElementsAre("b"));
  EXPECT_EQ(corpus.num_filtered, 1);
  EXPECT_THAT(Read(files.directory() / "in", Where("n = 1 or n is null")).ids,
              ElementsAre("a.txt", "b"));
}

struct ParquetCase {
  const char* where;
  std::function<bool(const std::function<json(const char*)>&)> keeps;
};

TEST(FilteredCorpusTest, KeepsParquetRowsForWhichTheExpressionIsTrue) {
  const auto golden = json::parse(*ReadFile(kGolden / "rows.json"));
  const std::vector<std::string> columns = golden["columns"];
  using Cell = const std::function<json(const char*)>&;
  const std::vector<ParquetCase> cases = {
      {"i64 >= 24999999999995", [](Cell c) { return c("i64") >= 24999999999995; }},
      {"i64 < 24999999999995", [](Cell c) { return c("i64") < 24999999999995; }},
      {"i32 > 0 or b",
       [](Cell c) {
         return (!c("i32").is_null() && c("i32") > 0) || (!c("b").is_null() && c("b") == true);
       }},
      {"not d <= 3.5", [](Cell c) { return !c("d").is_null() && c("d") > 3.5; }},
      {"f > -0.5 and u32 < 2147483648",
       [](Cell c) { return c("f") > -0.5 && c("u32") < 2147483648; }},
      {"meta.source in ('s1', 's3')",
       [](Cell c) { return c("meta.source") == "s1" || c("meta.source") == "s3"; }},
      {"meta.source is null and id != 'doc-3'",
       [](Cell c) { return c("meta.source").is_null() && c("id") != "doc-3"; }},
      {"vector is null or fixed = 'cccc'",
       [](Cell c) { return c("vector").is_null() || c("fixed") == "cccc"; }},
  };
  for (const char* stem : {"none-1", "zstd-2", "encodings-1"}) {
    const auto path = kGolden / absl::StrCat(stem, ".parquet");
    for (const ParquetCase& filter : cases) {
      v1::IngestConfig config = Where(filter.where);
      config.set_id_field("none");
      std::vector<std::string> expected;
      int64_t num_filtered = 0;
      for (size_t row = 0; row < golden["rows"].size(); ++row) {
        const auto cell = [&](const char* name) -> json {
          const auto column = std::ranges::find(columns, name) - columns.begin();
          return golden["rows"][row][static_cast<size_t>(column)];
        };
        if (!filter.keeps(cell)) {
          ++num_filtered;
        } else if (!cell("text").is_null() && cell("text") != "") {
          expected.push_back(absl::StrCat(stem, ".parquet:", row));
        }
      }
      const Corpus corpus = Read(path, config);
      ASSERT_TRUE(corpus.status.ok()) << filter.where << corpus.status;
      EXPECT_EQ(corpus.ids, expected) << filter.where;
      EXPECT_EQ(corpus.num_filtered, num_filtered) << filter.where;
      ASSERT_GT(num_filtered, 0) << filter.where;
      ExpectResumesEverywhere(path, config);
    }
  }
}

TEST(FilteredCorpusTest, PassesOverRowGroupsByTheirStatistics) {
  // The golden files have a group of 25 rows and one of 15.
  const auto steps = [](const char* where) {
    CorpusFile file;
    file.path = kGolden / "none-1.parquet";
    file.kind = CorpusFileKind::kParquet;
    const auto settings = RecordSettings::From(Where(where));
    EXPECT_TRUE(settings.ok());
    const auto reader = RecordReader::Create(file, *settings);
    std::vector<int64_t> groups;
    while (true) {
      const absl::StatusOr<Record> record = reader->Next({.fields_shown = true});
      EXPECT_TRUE(record.ok()) << record.status();
      if (!record.ok() || record->kind == RecordKind::kEnd) return groups;
      if (record->num_filtered > 1) groups.push_back(record->num_filtered);
    }
  };
  EXPECT_THAT(steps("i64 >= 24999999999995"), ElementsAre(25));
  EXPECT_THAT(steps("i64 < 0"), ElementsAre(15));
  EXPECT_THAT(steps("i64 < -5"), ElementsAre(25, 15));
  EXPECT_THAT(steps("id = 'zzz'"), ElementsAre(25, 15));
  EXPECT_THAT(steps("i64 is null"), ElementsAre(25, 15));
  EXPECT_THAT(steps("i64 >= 24999999999995 or b"), ElementsAre()) << "b may be true anywhere";
  EXPECT_THAT(steps("not f > -2"), ElementsAre()) << "a NaN would be kept";
}

TEST(FilteredCorpusTest, ParquetColumnsMustExistAndHaveTheType) {
  const auto path = kGolden / "none-1.parquet";
  const auto message = [&](const char* where) { return Read(path, Where(where)).message(); };
  EXPECT_THAT(message("meta.sourc = 'x'"), HasSubstr("did you mean \"meta.source\""));
  EXPECT_THAT(message("i64 = 'x'"), HasSubstr("column \"i64\" holds a number, the expression"));
  EXPECT_THAT(message("vector = 1"), HasSubstr("column \"vector\" holds lists"));
  EXPECT_EQ(Read(path, Where("b = 1")).status.code(), absl::StatusCode::kInvalidArgument);
}

TEST(FilteredCorpusTest, TakesVectorsOfJsonRecordsAndCountsBadOnes) {
  const CraftedFiles files;
  const auto path = files.Write("a.jsonl", R"({"id": "a", "text": "x", "v": [1, 0.5, -2e0]}
{"id": "b", "text": "x", "v": [1, 2]}
{"id": "c", "text": "x", "v": [0, 0, 0]}
{"id": "d", "text": "x", "v": [1, null, 2]}
{"id": "e", "text": "x", "v": [1e39, 0, 0]}
{"id": "f", "text": "x", "v": null}
{"id": "g", "text": "x", "v": []}
{"id": "h", "text": "x"}
{"id": "i", "text": "", "v": [1, 1, 1]}
{"id": "b", "text": "x", "v": [1, 1, 3]}
)");
  const Corpus corpus = Read(path, Vectors("v"));
  ASSERT_TRUE(corpus.status.ok()) << corpus.status;
  EXPECT_THAT(corpus.ids, ElementsAre("a", "b")) << "a rejected record does not use up its id";
  EXPECT_THAT(corpus.vectors, ElementsAre(ElementsAre(1, 0.5, -2), ElementsAre(1, 1, 3)));
  EXPECT_THAT(corpus.rejects,
              UnorderedElementsAre(Pair("embedding of another dimension", 1),
                                   Pair("zero embedding", 1), Pair("embedding not finite", 2),
                                   Pair("missing embedding", 3), Pair("empty", 1)));
  ExpectResumesEverywhere(path, Vectors("v"));
  EXPECT_THAT(Read(path, Vectors("w")).message(), HasSubstr("did you mean \"v\""));
}

TEST(FilteredCorpusTest, TakesVectorsOfParquetRows) {
  v1::IngestConfig config = Vectors("vector");
  config.set_id_field("none");
  const Corpus corpus = Read(kGolden / "snappy-2.parquet", config);
  ASSERT_TRUE(corpus.status.ok()) << corpus.status;
  ASSERT_FALSE(corpus.ids.empty());
  // Row i has i % 4 elements of i / 4, and the first row with a text and a vector is row 1.
  for (size_t i = 0; i < corpus.ids.size(); ++i) {
    const int row = std::stoi(corpus.ids[i].substr(corpus.ids[i].find(':') + 1));
    EXPECT_EQ(row % 4, 1);
    EXPECT_THAT(corpus.vectors[i], ElementsAre(static_cast<float>(row) / 4));
  }
  EXPECT_GT(corpus.rejects.at("embedding of another dimension"), 5);
  EXPECT_GT(corpus.rejects.at("missing embedding"), 5);
  EXPECT_THAT(Read(kGolden / "none-1.parquet", Vectors("vectr")).message(),
              HasSubstr("did you mean \"vector\""));
  EXPECT_THAT(Read(kGolden / "none-1.parquet", Vectors("f")).message(),
              HasSubstr("expected lists of FLOAT"));
}

}  // namespace filtered_corpus_test
}  // namespace braid
