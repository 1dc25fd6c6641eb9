#include "pipeline/stages/ingest_stage.h"

#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/store/resume_point.h"
#include "pipeline/store/stage_store.h"
#include "tests/base/crafted_files.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace ingest_stage_test {

// Otherwise a kill would cost all input from which no chunk of text was kept.
TEST(IngestStageTest, SavesResumePointsWhileAFilterKeepsFewRecords) {
  const CraftedFiles files;
  std::string lines;
  for (int i = 0; i < 20'000; ++i) {
    absl::StrAppend(&lines, "{\"text\": \"record ", i, " of a long file\", \"n\": ", i % 100,
                    "}\n");
  }
  v1::CorpusSpec spec;
  spec.add_paths(files.Write("a.jsonl", lines).string());
  spec.mutable_ingest()->set_where("n = 0");
  const v1::CorpusSpec resolved = ResolveCorpusSpec(spec).value();
  const std::string key = IngestKey(resolved).value();
  StageStore store(files.directory() / "store", {.chunk_bytes = int64_t{64} << 10});
  int64_t saved = 0;
  EXPECT_OK(store.Produce("ingest", key, [&](StageWriter& writer) -> absl::Status {
    const auto progress = [](int64_t, int64_t) { return absl::OkStatus(); };
    RETURN_IF_ERROR(Ingest(resolved, key, {}, progress, &writer));
    ASSIGN_OR_RETURN(const ResumeRecord record, ResumeRecord::Load(writer.directory()));
    saved = record.point.position;
    return absl::OkStatus();
  }));
  EXPECT_GT(saved, 100) << "of 200 documents";
}

// The count of records with the field is part of the resume point.
TEST(IngestStageTest, ResumedIngestNotesAMissingFieldOnlyIfNoRecordHasIt) {
  for (const bool has_field : {false, true}) {
    const CraftedFiles files;
    std::string lines = has_field ? R"({"text": "first", "kind": "x"})"
                                    "\n"
                                  : "";
    for (int i = 0; i < 2000; ++i) absl::StrAppend(&lines, "{\"text\": \"record ", i, "\"}\n");
    v1::CorpusSpec spec;
    spec.add_paths(files.Write("a.jsonl", lines).string());
    spec.mutable_ingest()->set_domain_field("kind");
    const v1::CorpusSpec resolved = ResolveCorpusSpec(spec).value();
    const std::string key = IngestKey(resolved).value();
    StageStore store(files.directory() / "store", {.chunk_bytes = 4096});
    int num_attempts = 0;
    const auto attempt = [&] {
      ++num_attempts;
      return store.Produce("ingest", key, [&](StageWriter& writer) {
        EXPECT_EQ(writer.resumed(), num_attempts > 1);
        return Ingest(
            resolved, key, {},
            [&](const StagePosition& position) {
              const bool stop = num_attempts == 1 && position.documents > 1000;
              return stop ? absl::CancelledError("stop") : absl::OkStatus();
            },
            &writer);
      });
    };
    EXPECT_FAILS(attempt(), absl::StatusCode::kCancelled);
    ASSERT_OK_AND_ASSIGN(const auto stored, attempt());
    ASSERT_OK_AND_ASSIGN(const IngestSummary summary, ReadIngestSummary(stored.directory));
    EXPECT_EQ(summary.num_records, has_field ? 2001 : 2000);
    EXPECT_EQ(summary.notes.size(), has_field ? 0u : 1u);
  }
}

}  // namespace ingest_stage_test
}  // namespace braid
