#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "pipeline/corpus/corpus_reader.h"
#include "tests/base/crafted_files.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace parquet_corpus_test {

using ::testing::HasSubstr;

// Written by tests/peers/parquet_golden.py.
const std::filesystem::path kGolden = BRAID_TESTS_DIR "/formats/parquet/golden";

v1::IngestConfig Config() {
  v1::IngestConfig config;
  config.set_domain_field("meta.source");
  return config;
}

// Lines that say what a reader returned.
struct Found {
  std::vector<std::string> documents, rejects;
  absl::Status status;
};

std::string Described(const Document& document) {
  return absl::StrCat(document.id, "|", document.text, "|", document.domain, "|", document.offset);
}

void ReadRest(CorpusReader& reader, Found* found) {
  while (true) {
    Document document;
    std::vector<Reject> rejects;
    const absl::StatusOr<CorpusStep> step = reader.Next(&document, &rejects);
    for (const Reject& reject : rejects) {
      found->rejects.push_back(absl::StrCat(reject.offset, " ", reject.reason));
    }
    found->status = step.status();
    if (!step.ok() || *step == CorpusStep::kEnd) return;
    if (*step == CorpusStep::kDocument) found->documents.push_back(Described(document));
  }
}

Found Read(const std::filesystem::path& path, const v1::IngestConfig& config = Config()) {
  Found found;
  const auto reader = CorpusReader::Open(std::vector<std::string>{path.string()}, config);
  found.status = reader.status();
  if (reader.ok()) ReadRest(**reader, &found);
  return found;
}

// What the rows of the golden files are as documents of the file `name`.
Found Expected(const std::string& stem) {
  const auto golden = nlohmann::json::parse(*ReadFile(kGolden / "rows.json"));
  const std::vector<std::string> columns = golden["columns"];
  const auto column = [&](const char* name) {
    return std::ranges::find(columns, name) - columns.begin();
  };
  Found expected;
  std::set<std::string> ids;
  for (size_t row = 0; row < golden["rows"].size(); ++row) {
    const auto& cells = golden["rows"][row];
    const auto& text = cells[column("text")];
    const auto& source = cells[column("meta.source")];
    const std::string id = cells[column("id")];
    if (text.is_null()) {
      expected.rejects.push_back(absl::StrCat(row, " missing text field"));
    } else if (text == "") {
      expected.rejects.push_back(absl::StrCat(row, " empty"));
    } else if (!ids.insert(id).second) {
      expected.rejects.push_back(absl::StrCat(row, " duplicate id"));
    } else {
      expected.documents.push_back(absl::StrCat(id, "|", text.get<std::string>(), "|",
                                                source.is_null() ? stem : source.get<std::string>(),
                                                "|", row));
    }
  }
  return expected;
}

TEST(ParquetCorpusTest, RowsAreDocumentsWithTheirIdsAndDomains) {
  for (const char* stem : {"none-1", "snappy-2", "zstd-1", "encodings-2"}) {
    const Found found = Read(kGolden / absl::StrCat(stem, ".parquet"));
    ASSERT_TRUE(found.status.ok()) << found.status;
    EXPECT_EQ(found.documents, Expected(stem).documents);
    EXPECT_EQ(found.rejects, Expected(stem).rejects);
  }
}

TEST(ParquetCorpusTest, RejectedRowsCarryTheirIds) {
  const auto reader =
      CorpusReader::Open(std::vector<std::string>{(kGolden / "none-1.parquet").string()}, Config())
          .value();
  std::map<std::string, int> ids;
  while (true) {
    Document document;
    std::vector<Reject> rejects;
    const auto step = reader->Next(&document, &rejects);
    ASSERT_TRUE(step.ok()) << step.status();
    for (const Reject& reject : rejects) {
      EXPECT_EQ(reject.id, absl::StrCat("doc-", reject.offset / 3));
      ++ids[reject.reason];
    }
    if (*step == CorpusStep::kEnd) break;
  }
  EXPECT_GT(ids["missing text field"], 0);
  EXPECT_GT(ids["empty"], 0);
}

TEST(ParquetCorpusTest, AnotherReaderContinuesAtAnyRow) {
  const std::vector<std::string> paths = {kGolden / "gzip-1.parquet"};
  const Found whole = Read(paths[0]);
  for (size_t count = 1; count < whole.documents.size(); ++count) {
    const auto first = CorpusReader::Open(paths, Config()).value();
    Found found;
    while (found.documents.size() < count) {
      Document document;
      std::vector<Reject> rejects;
      ASSERT_TRUE(first->Next(&document, &rejects).ok());
      found.documents.push_back(Described(document));
    }
    const auto position = first->position();
    ASSERT_TRUE(position.has_value());
    const auto second = CorpusReader::Open(paths, Config()).value();
    ASSERT_TRUE(second->Resume(*position, first->TakeIdHashes(), nullptr).ok());
    ReadRest(*second, &found);
    EXPECT_EQ(found.documents, whole.documents) << "after " << count;
  }
}

TEST(ParquetCorpusTest, ColumnWithoutTextIsAnErrorThatNamesTheColumns) {
  v1::IngestConfig config;
  config.set_text_field("body");
  const Found found = Read(kGolden / "none-1.parquet", config);
  EXPECT_EQ(found.status.code(), absl::StatusCode::kInvalidArgument);
  for (const char* named :
       {"none-1.parquet", "meta.source", "named body", "set ingest.text_field (--text-field)"}) {
    EXPECT_THAT(std::string(found.status.message()), HasSubstr(named));
  }
  config.set_text_field("i32");
  EXPECT_EQ(Read(kGolden / "none-1.parquet", config).status.code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ParquetCorpusTest, WithoutSettingsTheColumnIsToBeRenamed) {
  const CraftedFiles files;
  // The footer holds the name of the column after its length.
  const std::string path =
      files
          .Write("body.parquet",
                 absl::StrReplaceAll(*ReadFile(kGolden / "none-1.parquet"), {{"\4text", "\4body"}}))
          .string();
  const auto reader = CorpusReader::OpenText(std::vector<std::string>{path}).value();
  Document document;
  std::vector<Reject> rejects;
  const absl::Status status = reader->Next(&document, &rejects).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              testing::AllOf(HasSubstr("body.parquet: got the columns "),
                             HasSubstr("rename the column that holds the text to \"text\""),
                             testing::Not(HasSubstr("ingest."))));
}

// Returns the rows that the details of damage count.
int64_t LostRows(const std::vector<Reject>& rejects) {
  int64_t lost = 0;
  for (const Reject& reject : rejects) {
    const size_t colon = reject.detail.rfind(": ");
    if (reject.reason == "damaged") lost += std::stoll(reject.detail.substr(colon + 2));
  }
  return lost;
}

TEST(ParquetCorpusTest, ADamagedPageLosesTheRestOfItsRowGroupWhichIsCounted) {
  const CraftedFiles files;
  const std::string bytes = *ReadFile(kGolden / "zstd-1.parquet");
  const std::vector<std::string> paths = {files.directory() / "zstd-1.parquet"};
  const Found whole = Expected("zstd-1");
  const auto num_rows = std::ssize(whole.documents) + std::ssize(whole.rejects);
  int damaged_files = 0, continued = 0;
  for (size_t i = 200; i < bytes.size() / 2; i += 150) {
    std::string damaged = bytes;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    std::ofstream(paths[0], std::ios::binary | std::ios::trunc) << damaged;
    const auto reader = CorpusReader::Open(paths, Config()).value();
    std::vector<std::string> documents;
    std::vector<Reject> rejects;
    int64_t last = -1, first_damage = num_rows;
    Document document;
    auto step = reader->Next(&document, &rejects);
    for (; step.ok() && *step != CorpusStep::kEnd; step = reader->Next(&document, &rejects)) {
      if (*step != CorpusStep::kDocument) continue;
      documents.push_back(Described(document));
      last = document.offset;
    }
    const auto is_damage = [](const Reject& reject) { return reject.reason == "damaged"; };
    const auto damage = std::ranges::find_if(rejects, is_damage);
    if (damage == rejects.end()) continue;
    ASSERT_TRUE(step.ok()) << step.status();
    ++damaged_files;
    first_damage = damage->offset;
    continued += last > first_damage ? 1 : 0;
    const auto others = std::ssize(rejects) - std::ranges::count_if(rejects, is_damage);
    EXPECT_EQ(std::ssize(documents) + others + LostRows(rejects), num_rows) << "byte " << i;
    EXPECT_EQ(Read(paths[0]).documents, documents);
  }
  EXPECT_GT(damaged_files, 0);
  EXPECT_GT(continued, 0);
}

TEST(ParquetCorpusTest, AnotherReaderContinuesAfterADamagedRowGroup) {
  const CraftedFiles files;
  std::string bytes = *ReadFile(kGolden / "zstd-1.parquet");
  bytes[400] = static_cast<char>(bytes[400] ^ 0x10);
  const std::vector<std::string> paths = {files.Write("zstd-1.parquet", bytes).string()};
  const Found whole = Read(paths[0]);
  ASSERT_THAT(whole.rejects, ::testing::Contains(HasSubstr(" damaged")));
  ASSERT_GT(whole.documents.size(), 1u);
  for (size_t count = 1; count < whole.documents.size(); ++count) {
    const auto first = CorpusReader::Open(paths, Config()).value();
    Found found;
    while (found.documents.size() < count) {
      Document document;
      std::vector<Reject> rejects;
      ASSERT_OK_AND_ASSIGN(const CorpusStep step, first->Next(&document, &rejects));
      if (step == CorpusStep::kDocument) found.documents.push_back(Described(document));
    }
    const auto position = first->position();
    ASSERT_TRUE(position.has_value());
    const auto second = CorpusReader::Open(paths, Config()).value();
    ASSERT_TRUE(second->Resume(*position, first->TakeIdHashes(), nullptr).ok());
    ReadRest(*second, &found);
    EXPECT_EQ(found.documents, whole.documents) << "after " << count;
  }
}

// Files of some hundred bytes: 60,000,000 rows of nulls; 300,000 times a text of 20,000 bytes, once
// from one dictionary and once with each id equal to the text; and 600,000 times a text of 512 KiB,
// each as a prefix of the text before.
TEST(ParquetCorpusTest, SmallFilesDoNotBecomeMillionsOfRecords) {
  for (const char* name : {"nulls", "text", "ids", "prefixes"}) {
    const std::filesystem::path path =
        std::filesystem::path(BRAID_TESTS_DIR) / "formats/parquet/bombs" / name;
    const std::string file = path.string() + ".parquet";
    ASSERT_LT(std::filesystem::file_size(file), 2000u);
    const auto reader = CorpusReader::Open(std::vector<std::string>{file}, {}).value();
    Document document;
    std::vector<Reject> rejects;
    for (absl::StatusOr<CorpusStep> step = CorpusStep::kNoneYet;
         step.ok() && *step != CorpusStep::kEnd && reader->num_records() < 200'000;) {
      step = reader->Next(&document, &rejects);
    }
    ASSERT_FALSE(rejects.empty()) << name;
    EXPECT_EQ(rejects.back().reason, "decompression bomb") << name;
    EXPECT_THAT(rejects.back().detail, HasSubstr(file + ", column \""));
    EXPECT_THAT(rejects.back().detail, HasSubstr("row group"));
  }
}

TEST(ParquetCorpusTest, AreFoundInDirectories) {
  const CraftedFiles files;
  std::filesystem::create_directories(files.directory() / "books");
  std::filesystem::copy(kGolden / "lz4-1.parquet", files.directory() / "books/PART.PARQUET");
  const Found found = Read(files.directory());
  EXPECT_EQ(found.documents.size(), Expected("").documents.size());
}

}  // namespace parquet_corpus_test
}  // namespace braid
