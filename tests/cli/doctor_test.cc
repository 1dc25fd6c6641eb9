#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <sstream>
#include <string_view>

#include "cli/machine_checks.h"
#include "cli/need_checks.h"
#include "cli/pipeline_bench.h"
#include "cli/rank_checks.h"
#include "rpc/interrupt.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace doctor_test {

using ::testing::HasSubstr;

std::vector<RankFindings> TwoHosts() {
  std::vector<RankFindings> ranks(4);
  for (int rank = 0; rank < 4; ++rank) {
    ranks[rank] = {.rank = rank,
                   .world_size = 4,
                   .host = rank < 2 ? "nd1" : "nd2",
                   .allowed_cores = 8,
                   .host_cores = 8,
                   .threads = 4,
                   .blas_core = "Zen",
                   .openmp_runtimes = {"/usr/lib/libgomp.so.1"}};
  }
  return ranks;
}

const Finding& Named(const Findings& findings, std::string_view what) {
  for (const Finding& finding : findings) {
    if (finding.what == what) return finding;
  }
  ADD_FAILURE() << "no finding about " << what;
  return findings.front();
}

TEST(CheckMachineTest, SaysWhichJournalTheDatabasesHaveAndWhy) {
  const ScratchDirectory home, state;
  const std::string with_home = Named(CheckMachine(home.path(), {}), "state").found;
  EXPECT_THAT(with_home, HasSubstr(home.path().string() + " is on "));
  EXPECT_THAT(with_home, HasSubstr("the lists of jobs and runs have a "));
  EXPECT_THAT(Named(CheckMachine(home.path(), state.path()), "state").found,
              HasSubstr(state.path().string() + " is on "));
  const Finding bad = Named(CheckMachine(home.path(), "/proc/state"), "state");
  EXPECT_EQ(bad.verdict, Grade::kBad);
  EXPECT_THAT(bad.found, HasSubstr("/proc/state"));
  EXPECT_THAT(bad.hint, HasSubstr("--state"));
}

TEST(CheckMachineTest, ChecksTheMpirunThatRunsAreLaunchedWith) {
  const ScratchDirectory home;
  const std::filesystem::path mpirun = home.path() / "other-mpirun";
  std::ofstream(mpirun) << "#!/bin/sh\necho 'mpirun (Open MPI) 4.1.4'\n";
  std::filesystem::permissions(mpirun, std::filesystem::perms::owner_all);
  const Finding good = Named(CheckMachine(home.path(), {}, mpirun.string()), "mpirun");
  EXPECT_EQ(good.verdict, Grade::kGood);
  EXPECT_EQ(good.found, "mpirun (Open MPI) 4.1.4, " + mpirun.string());
  const std::string missing = home.path() / "no-mpirun";
  const Finding bad = Named(CheckMachine(home.path(), {}, missing), "mpirun");
  EXPECT_EQ(bad.verdict, Grade::kBad);
  EXPECT_EQ(bad.found, missing + " not found");
}

TEST(JudgeRanksTest, AcceptsHealthyRanks) {
  for (const Finding& finding : JudgeRanks(TwoHosts(), 4)) {
    EXPECT_EQ(finding.verdict, Grade::kGood) << finding.what << ": " << finding.found;
  }
  EXPECT_THAT(Named(JudgeRanks(TwoHosts(), 4), "ranks").found, HasSubstr("2 on nd1, 2 on nd2"));
}

TEST(JudgeRanksTest, WarnsOfMoreThreadsThanCores) {
  const Finding cores = Named(JudgeRanks(TwoHosts(), 5), "cores");
  EXPECT_EQ(cores.verdict, Grade::kWarning);
  EXPECT_THAT(cores.found, HasSubstr("nd1: 10 threads on 8 cores"));
}

TEST(JudgeRanksTest, ReportsRanksBoundToFewerCoresThanThreads) {
  std::vector<RankFindings> ranks = TwoHosts();
  ranks[2].allowed_cores = 1;
  const Finding binding = Named(JudgeRanks(ranks, 4), "binding");
  EXPECT_EQ(binding.verdict, Grade::kBad);
  EXPECT_THAT(binding.found, HasSubstr("rank 2"));
}

TEST(JudgeRanksTest, ReportsHostsWithSlowKernelsTwoRuntimesOrSkewedClocks) {
  std::vector<RankFindings> ranks = TwoHosts();
  ranks[3].blas_core = "Prescott";
  ranks[3].better_blas_core = "SkylakeX";
  ranks[3].openmp_runtimes = {"/a/libgomp.so", "/b/libiomp5.so"};
  ranks[3].clock_offset_seconds = -40;
  const Findings findings = JudgeRanks(ranks, 4);
  EXPECT_EQ(Named(findings, "BLAS kernels").verdict, Grade::kBad);
  EXPECT_THAT(Named(findings, "BLAS kernels").hint, HasSubstr("OPENBLAS_CORETYPE=SkylakeX on nd2"));
  EXPECT_EQ(Named(findings, "OpenMP runtimes").verdict, Grade::kBad);
  EXPECT_THAT(Named(findings, "OpenMP runtimes").hint, HasSubstr("nd2"));
  EXPECT_EQ(Named(findings, "clocks").verdict, Grade::kBad);
  EXPECT_THAT(Named(findings, "clocks").found, HasSubstr("40.000 s of rank 0, furthest on nd2"));
}

TEST(JudgeRanksTest, ReportsHostsWithoutTheSharedDirectory) {
  std::vector<RankFindings> ranks = TwoHosts();
  ranks[2].visible_after_seconds = ranks[3].visible_after_seconds = -1;
  const Finding shared = Named(JudgeRanks(ranks, 4), "shared directory");
  EXPECT_EQ(shared.verdict, Grade::kBad);
  EXPECT_THAT(shared.found, HasSubstr("nd2"));
  ranks[2].visible_after_seconds = ranks[3].visible_after_seconds = 3;
  EXPECT_EQ(Named(JudgeRanks(ranks, 4), "shared directory").verdict, Grade::kWarning);
}

TEST(JudgeNeedTest, ComparesMemoryAndCheckpointSpace) {
  v1::DescribeModelResponse model;
  model.set_num_parameters(1'000'000'000);
  model.mutable_forecast()->set_total_bytes_zero_1(int64_t{4} << 30);
  Resources free{.memory_bytes = int64_t{9} << 30, .disk_bytes = int64_t{37'000'000'000}};
  const Findings fits = JudgeModelNeed(model, 2, 2, free);
  EXPECT_EQ(fits[0].verdict, Grade::kGood) << fits[0].found;
  EXPECT_EQ(fits[1].verdict, Grade::kGood) << fits[1].found;
  const Findings too_much = JudgeModelNeed(model, 3, 3, free);
  EXPECT_EQ(too_much[0].verdict, Grade::kBad) << too_much[0].found;
  EXPECT_EQ(too_much[1].verdict, Grade::kBad) << too_much[1].found;
}

TEST(JudgeNeedTest, CountsDirectoriesAndExpandedSizes) {
  const ScratchDirectory folder;
  std::filesystem::create_directories(folder.path() / "deep" / "er");
  std::ofstream(folder.path() / "deep" / "er" / "a.jsonl") << std::string(1000, 'x');
  std::ofstream(folder.path() / "b.jsonl.zst") << std::string(100, 'x');
  EXPECT_EQ(CorpusBytes({folder.path().string()}).value(), 1400);
  EXPECT_EQ(CorpusBytes({(folder.path() / "no").string()}).status().code(),
            absl::StatusCode::kNotFound);
  EXPECT_EQ(JudgeCorpusNeed(1400, {.disk_bytes = 5599}).verdict, Grade::kBad);
  EXPECT_EQ(JudgeCorpusNeed(1400, {.disk_bytes = 5600}).verdict, Grade::kGood);
}

// The figures of docs/scale.md for a million documents.
TEST(PipelineBenchTest, StatedConstantsGiveTheForecastOfTheDocuments) {
  const ForecastCorpus million{.documents = 1e6,
                               .text_bytes = 1231,
                               .tokens = 474,
                               .dimension = 256,
                               .searched_share = 1856.0 / 4000};
  EXPECT_NEAR(EmbedSeconds(kStatedRates, million), 36.9, 0.1);
  EXPECT_NEAR(NeighborSeconds(kStatedRates, million), 503, 1);
  EXPECT_NEAR(TokenizeSeconds(kStatedRates, million), 18.5, 0.1);
  EXPECT_NEAR(HeldoutSeconds(kStatedRates, million), 34, 1);
  EXPECT_NEAR(PackSeconds(kStatedRates, million), 5.7, 0.1);
  std::ifstream scale(BRAID_TESTS_DIR "/../docs/scale.md");
  const std::string text(std::istreambuf_iterator<char>(scale), {});
  EXPECT_THAT(text, HasSubstr("15e-9 N B, and 4.8 s per MiB to train on"));
  EXPECT_THAT(text, HasSubstr("14e-9 N B per started 32 MiB of held-out text"));
  EXPECT_THAT(text, HasSubstr("12e-9 N T"));
  EXPECT_THAT(text, HasSubstr("30e-9 N B"));
  EXPECT_THAT(text, HasSubstr("83e-6 N + 3.54e-12 d N^2 P / L"));
}

TEST(PipelineBenchTest, MeasuresEveryConstantOnASmallCorpus) {
  ASSERT_OK_AND_ASSIGN(
      const PipelineRates rates,
      MeasurePipeline({.documents = 6000, .dimension = 64, .text_bytes = 300, .num_threads = 1}));
  EXPECT_GT(rates.embed, 0);
  EXPECT_GT(rates.neighbors_document, 0);
  EXPECT_GT(rates.neighbors_product, 0);
  EXPECT_GT(rates.order, 0);
  EXPECT_GT(rates.product_gflops, 0);
  EXPECT_GT(rates.stages.tokenize, 0);
  EXPECT_GT(rates.stages.tokenizer_training, 0);
  EXPECT_GT(rates.stages.heldout, 0);
  EXPECT_GT(rates.stages.pack, 0);
}

TEST(PipelineBenchTest, EndsBeforeTheLongestMeasurementsAfterCtrlC) {
  CatchInterrupts();
  raise(SIGINT);
  EXPECT_FAILS(
      MeasurePipeline({.documents = 1000, .dimension = 64, .text_bytes = 30, .num_threads = 1}),
      absl::StatusCode::kCancelled, "interrupted");
  ForgetInterrupt();
  signal(SIGTERM, SIG_DFL);
}

TEST(PipelineBenchTest, PrintsTheForecastBesideTheFormula) {
  PipelineRates twice = kStatedRates;
  twice.embed *= 2;
  twice.neighbors_document *= 2;
  twice.neighbors_product *= 2;
  twice.order = 1e-6;
  twice.stages.pack *= 2;
  const Findings findings = DescribeRates(twice, {});
  EXPECT_THAT(Named(findings, "bench: embed").found,
              HasSubstr("60e-9 s N B (docs/scale.md: 30e-9); 1,000,000 documents: 72.0 s "
                        "(docs/scale.md: 36.0 s)"));
  EXPECT_THAT(Named(findings, "bench: neighbors").found,
              HasSubstr("166e-6 N + 7.08e-12 d N^2 P/L (docs/scale.md: 83e-6 N + 3.54e-12"));
  EXPECT_THAT(Named(findings, "bench: order").found,
              HasSubstr("1e-6 s N; 1,000,000 documents: 1.0 s"));
  EXPECT_THAT(Named(findings, "bench: pack").found,
              HasSubstr("24e-9 s N T (docs/scale.md: 12e-9); 1,000,000 documents: 9.6 s "
                        "(docs/scale.md: 4.8 s)"));
  EXPECT_THAT(Named(findings, "bench: tokenizer").found,
              HasSubstr("4.8 s per MiB to train on (docs/scale.md: 4.8)"));
  EXPECT_THAT(Named(findings, "bench: held-out comparison").found,
              HasSubstr("14e-9 s N B per started 32 MiB (docs/scale.md: 14e-9)"));
}

TEST(FindingsTest, PrintsHintsBelowWarningsAndErrors) {
  std::ostringstream out;
  PrintFindings(
      {{Grade::kGood, "a", "fine", "never shown"}, {Grade::kBad, "long name", "broken", "mend it"}},
      out);
  EXPECT_EQ(out.str(),
            "good      a          fine\n"
            "bad       long name  broken\n"
            "                     mend it\n");
  EXPECT_THAT(FindingsToJson({{Grade::kWarning, "x", "y\xff", "z"}}),
              HasSubstr("\"verdict\": \"warning\""));
}

}  // namespace doctor_test
}  // namespace braid
