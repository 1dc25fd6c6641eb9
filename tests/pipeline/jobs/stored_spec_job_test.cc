// What is stored of a job: a changed byte is an error that names the file and the row, and never
// another setting.
#include <SQLiteCpp/Database.h>
#include <SQLiteCpp/Statement.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/util/message_differencer.h"
#include "pipeline/jobs/job_store.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/stored_bytes.h"

namespace braid {
namespace stored_spec_job_test {

namespace fs = std::filesystem;
using google::protobuf::util::MessageDifferencer;
using testing::AllOf;
using testing::HasSubstr;

// Jobs in the database, and a second connection that changes their rows.
class StoredJobTest : public testing::Test {
 protected:
  StoredJobTest()
      : store_(JobStore::Open(Home()).value()),
        database_((Home() / "jobs.sqlite").string(), SQLite::OPEN_READWRITE, 10000) {
    Fill(&spec_);
  }

  std::string Blob(const std::string& table, const std::string& column) {
    SQLite::Statement query(database_, absl::StrCat("SELECT ", column, " FROM ", table));
    query.executeStep();
    return query.getColumn(0).getString();
  }

  void SetBlob(const std::string& table, const std::string& column, const std::string& bytes) {
    SQLite::Statement update(database_, absl::StrCat("UPDATE ", table, " SET ", column, " = ?"));
    update.bind(1, static_cast<const void*>(bytes.data()), static_cast<int>(bytes.size()));
    update.exec();
  }

  // Changes every byte of a column of the only row and expects `read` to name the row.
  void ExpectDamage(const std::string& table, const std::string& column,
                    const std::function<absl::Status()>& read) {
    const std::string bytes = Blob(table, column);
    ASSERT_TRUE(read().ok()) << read();
    ForEachChange(bytes, [&](const std::string& changed, size_t at) {
      SetBlob(table, column, changed);
      const absl::Status status = read();
      EXPECT_TRUE(absl::IsDataLoss(status)) << column << " at " << at << ": " << status;
      EXPECT_THAT(std::string(status.message()),
                  AllOf(HasSubstr("jobs.sqlite"), HasSubstr("job-000001")));
    });
    SetBlob(table, column, bytes);
    EXPECT_TRUE(read().ok()) << read();
  }

  fs::path Home() const { return scratch_.path() / "home"; }

  const ScratchDirectory scratch_;
  v1::CorpusSpec spec_;
  std::unique_ptr<JobStore> store_;
  SQLite::Database database_;
};

TEST_F(StoredJobTest, EveryByteOfAJobIsCovered) {
  ASSERT_EQ(store_->Submit(spec_, "request").value().id(), "job-000001");
  const auto get = [&] { return store_->Get("job-000001").status(); };
  ExpectDamage("jobs", "spec", get);
  for (const char* column : {"request_id", "principal"}) {
    const std::string text = Blob("jobs", column);
    database_.exec(absl::StrCat("UPDATE jobs SET ", column, " = 'other'"));
    EXPECT_TRUE(absl::IsDataLoss(get())) << column;
    database_.exec(absl::StrCat("UPDATE jobs SET ", column, " = '", text, "'"));
  }
  v1::StageProgress progress;
  Fill(&progress);
  ASSERT_TRUE(store_->ClaimNext().ok());
  ASSERT_TRUE(store_->RecordProgress("job-000001", progress).ok());
  ExpectDamage("jobs", "stages", get);
  v1::JobResult result;
  Fill(&result);
  ASSERT_TRUE(store_->Succeed("job-000001", result).ok());
  ExpectDamage("jobs", "result", get);
  EXPECT_TRUE(MessageDifferencer::Equals(store_->Get("job-000001")->spec(), spec_));
}

TEST_F(StoredJobTest, EveryByteOfAnEventIsCovered) {
  ASSERT_TRUE(store_->Submit(spec_, "request").ok());
  ExpectDamage("events", "event", [&] { return store_->EventsAfter("job-000001", 0).status(); });
}

TEST_F(StoredJobTest, DamagedJobFailsAndTheOthersContinue) {
  ASSERT_TRUE(store_->Submit(spec_, "first").ok());
  std::string bytes = Blob("jobs", "spec");
  bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 4);
  SetBlob("jobs", "spec", bytes);
  ASSERT_EQ(store_->Submit(spec_, "second").value().id(), "job-000002");
  const auto claimed = store_->ClaimNext();
  ASSERT_TRUE(claimed.ok() && claimed->has_value()) << claimed.status();
  EXPECT_EQ((*claimed)->id(), "job-000002");
  const auto jobs = store_->List().value();
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[1].state(), v1::JOB_FAILED);
  EXPECT_THAT(jobs[1].error(), HasSubstr("job-000001: the stored spec is damaged"));
  EXPECT_FALSE(jobs[1].has_spec());
  EXPECT_TRUE(absl::IsDataLoss(store_->Submit(spec_, "first").status()));
}

TEST_F(StoredJobTest, RowsOfAnOlderVersionGetChecksums) {
  ASSERT_TRUE(store_->Submit(spec_, "request").ok());
  store_.reset();
  database_.exec(
      "ALTER TABLE jobs DROP COLUMN spec_crc; ALTER TABLE jobs DROP COLUMN stages_crc;"
      "ALTER TABLE jobs DROP COLUMN result_crc; ALTER TABLE events DROP COLUMN crc;"
      "PRAGMA user_version=2");
  store_ = JobStore::Open(Home()).value();
  EXPECT_TRUE(MessageDifferencer::Equals(store_->Get("job-000001").value().spec(), spec_));
  EXPECT_EQ(store_->EventsAfter("job-000001", 0).value().size(), 1u);
  ExpectDamage("jobs", "spec", [&] { return store_->Get("job-000001").status(); });
}

}  // namespace stored_spec_job_test
}  // namespace braid
