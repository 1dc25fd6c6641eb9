#include "client/terminal/tables.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include "braid/v1/pipeline.pb.h"
#include "client/terminal/tasks_table.h"

namespace braid {
namespace tables_test {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

TEST(TablesTest, AlignsNumbersRightAndTextLeft) {
  std::ostringstream out;
  PrintTable({{"NAME", "COUNT"}, {"a", "7"}, {"longer", "1,234"}}, out);
  EXPECT_EQ(out.str(),
            "NAME    COUNT\n"
            "a           7\n"
            "longer  1,234\n");
}

TEST(TablesTest, SeparatesThousands) {
  EXPECT_EQ(WithThousands(7), "7");
  EXPECT_EQ(WithThousands(1234), "1,234");
  EXPECT_EQ(WithThousands(1234567890), "1,234,567,890");
  EXPECT_EQ(WithThousands(-1234), "-1,234");
  EXPECT_EQ(WithThousands(-123), "-123");
}

TEST(TablesTest, ShowsExpertStatisticsOfARun) {
  v1::Run run;
  std::ostringstream dense;
  run.mutable_latest()->set_step(7);
  PrintRun(run, dense);
  EXPECT_EQ(dense.str().find("experts"), std::string::npos);
  for (int layer : {1, 3}) {
    v1::LayerRouting* routing = run.mutable_latest()->add_routing();
    routing->set_layer(layer);
    routing->set_effective_experts(layer == 1 ? 7.5 : 2.5);
    routing->set_active_experts(layer == 1 ? 8 : 3);
    routing->set_expert_cosine(0.9);
    for (int e = 0; e < 8; ++e) routing->add_mean_weights(0.125);
  }
  std::ostringstream out;
  PrintRun(run, out);
  EXPECT_NE(out.str().find("5.0 of 8 effective (2.5 in layer 3), 5.5 active, cosine 0.900\n"),
            std::string::npos)
      << out.str();
}

TEST(TablesTest, ShowsThroughputOfARun) {
  v1::Run run;
  run.mutable_latest()->set_tokens_per_second(12000);
  std::ostringstream plain;
  PrintRun(run, plain);
  EXPECT_EQ(plain.str().find("GFLOP"), std::string::npos);
  run.mutable_latest()->set_gflops(85.07);
  run.mutable_latest()->set_model_flops_utilization(0.637);
  std::ostringstream measured;
  PrintRun(run, measured);
  EXPECT_NE(measured.str().find("tokens/s, 85.1 GFLOP/s, 64 % of the peak"), std::string::npos)
      << measured.str();
}

TEST(TablesTest, ShowsForecastsForBothShardings) {
  v1::Forecast forecast;
  forecast.mutable_request()->set_world_size(4);
  forecast.set_weight_bytes(int64_t{3} << 30);
  forecast.set_moment_bytes(int64_t{6} << 30);
  forecast.set_moment_bytes_zero_1(int64_t{3} << 29);
  forecast.set_all_reduce_bytes(4.5e9);
  forecast.set_step_flops(2e12);
  std::ostringstream out;
  PrintForecast(forecast, out);
  for (const char* part : {"PER RANK (4 RANKS)", "3.00 GiB", "6.00 GiB", "1.50 GiB", "4.5GB",
                           "2e+12 FLOPs per rank", "--gflops"}) {
    EXPECT_NE(out.str().find(part), std::string::npos) << part << " in\n" << out.str();
  }
  forecast.set_step_seconds(12.25);
  PrintForecast(forecast, out);
  EXPECT_NE(out.str().find("step 12.250 s"), std::string::npos);
}

TEST(TablesTest, ShowsWhichEvaluationFilesWereFound) {
  v1::Job job;
  v1::JobResult& result = *job.mutable_result();
  result.set_num_documents_read(1200);
  result.set_num_documents(1150);
  result.set_num_contaminated(50);
  v1::ContaminationSummary& file = *result.add_contamination();
  file.set_file("/tasks/sst2/dev.tsv");
  file.set_num_texts(872);
  file.set_num_short_texts(300);
  file.set_num_matched_texts(7);
  file.set_num_matched_documents(50);
  std::ostringstream dropped, kept;
  PrintJob(job, dropped);
  EXPECT_THAT(dropped.str(), HasSubstr("1,150 packed + 0 held out + 50 contaminated + 0 dup"));
  EXPECT_THAT(dropped.str(),
              HasSubstr("documents that share 13 words with evaluation text: 50, dropped\n"
                        "EVALUATION FILE      TEXTS  SHORT  MATCHED TEXTS  MATCHED DOCUMENTS\n"
                        "/tasks/sst2/dev.tsv    872    300              7                 50\n"));
  job.mutable_spec()->mutable_decontaminate()->set_report_only(true);
  result.set_num_documents(1200);
  PrintJob(job, kept);
  EXPECT_THAT(kept.str(), HasSubstr("1,200 packed + 0 held out + 0 duplicates"));
  EXPECT_THAT(kept.str(), HasSubstr("evaluation text: 50, kept\n"));
}

TEST(TablesTest, ShowsTheNotesOfStages) {
  v1::Job job;
  job.add_stages()->set_stage("ingest");
  job.mutable_stages(0)->add_notes("no record has it");
  std::ostringstream out;
  PrintJob(job, out);
  EXPECT_THAT(out.str(), testing::ContainsRegex("  note +no record has it\n"));
}

// As those of delete, gc, token list and the report.
TEST(TablesTest, ListsStateTimesInUtc) {
  v1::ListJobsResponse jobs;
  jobs.add_jobs()->set_created_at(1'000'000'000);
  v1::ListRunsResponse runs;
  runs.add_runs()->set_created_at(1'000'000'000);
  std::ostringstream out[2];
  PrintJobs(jobs, out[0]);
  PrintRuns(runs, out[1]);
  for (const std::ostringstream& each : out) {
    EXPECT_THAT(each.str(), AllOf(HasSubstr("CREATED (UTC)\n"), HasSubstr("2001-09-09 01:46\n")));
  }
}

// Earlier versions accepted such names.
TEST(TablesTest, NamesCannotControlTheTerminal) {
  const std::string bad = "a\nb\x1b[31mX", shown = "a b [31mX";
  v1::Job job;
  job.mutable_spec()->set_name(bad);
  v1::Run run;
  run.mutable_spec()->set_name(bad);
  v1::ListJobsResponse jobs;
  *jobs.add_jobs() = job;
  v1::ListRunsResponse runs;
  *runs.add_runs() = run;
  std::ostringstream out[4];
  PrintJob(job, out[0]);
  PrintJobs(jobs, out[1]);
  PrintRun(run, out[2]);
  PrintRuns(runs, out[3]);
  for (const std::ostringstream& each : out) {
    EXPECT_THAT(each.str(), AllOf(HasSubstr(shown), Not(HasSubstr("\x1b"))));
  }
  EXPECT_EQ(NameText(std::string(100000, 'x')).size(), 200u);
}

v1::TaskMetric Accuracy(double value, double low, double high) {
  v1::TaskMetric metric;
  metric.set_name("accuracy");
  metric.set_value(value);
  metric.mutable_interval()->set_low(low);
  metric.mutable_interval()->set_high(high);
  return metric;
}

TEST(TablesTest, ShowsTheCleanExamplesOfATaskBelowAll) {
  v1::TasksResult result;
  result.set_model("run-000001");
  result.set_step(9);
  v1::TaskResult& task = *result.add_results();
  task.set_task("sst2");
  task.set_num_examples(1872);
  *task.add_metrics() = Accuracy(0.75, 0.7, 0.8);
  std::ostringstream unknown, compared;
  PrintTasksResult(result, unknown);
  EXPECT_THAT(unknown.str(), Not(HasSubstr("clean")));
  EXPECT_THAT(unknown.str(), Not(HasSubstr("warning")));
  task.set_num_clean_examples(1865);
  *task.add_clean_metrics() = Accuracy(0.5, 0.4, 0.6);
  PrintTasksResult(result, compared);
  EXPECT_THAT(compared.str(), HasSubstr("\nsst2        1,872"));
  EXPECT_THAT(compared.str(), HasSubstr("\n  clean     1,865"));
  EXPECT_THAT(compared.str(), HasSubstr("50.0"));
}

// A label head takes no demonstrations, and a short context has room for fewer.
TEST(TablesTest, TasksShowTheShotsAndExamplesOfEachModel) {
  v1::TasksResult result;
  for (const int shots : {0, 4, 4}) {
    v1::TaskResult& task = *result.add_results();
    task.set_task("sst2");
    task.set_model("run-" + std::to_string(result.results_size()));
    task.set_num_examples(shots == 0 ? 1872 : 60);
    task.set_mean_shots(shots);
    *task.add_metrics() = Accuracy(0.75, 0.7, 0.8);
  }
  std::ostringstream whole, cut;
  PrintTasksResult(result, whole);
  EXPECT_THAT(whole.str(), AllOf(HasSubstr("\nsst2  1,872, 60   0, 4  accuracy"),
                                 Not(HasSubstr("clean")), Not(HasSubstr("0, 3"))));
  result.mutable_results(1)->set_num_shortened(3);
  result.mutable_results(2)->set_num_clean_examples(59);
  *result.mutable_results(2)->add_clean_metrics() = Accuracy(0.5, 0.4, 0.6);
  PrintTasksResult(result, cut);
  EXPECT_THAT(cut.str(), AllOf(HasSubstr("0, 3\n"), HasSubstr("\n  clean         59 ")));
}

TEST(TablesTest, TasksNameTheCheckpointOfEachModel) {
  v1::TasksResult result;
  result.set_model("/runs/run-000001");
  result.mutable_source()->set_checkpoint("/runs/run-000001/checkpoints/step-00000020");
  result.mutable_source()->set_step(20);
  v1::ModelSource& further = *result.add_further_sources();
  further.set_checkpoint("/runs/run-000002/checkpoints/step-00000030");
  further.set_step(30);
  std::ostringstream out;
  PrintTasksResult(result, out);
  EXPECT_THAT(out.str(),
              HasSubstr("\n/runs/run-000001/checkpoints/step-00000020 at step 20, "
                        "/runs/run-000002/checkpoints/step-00000030 at step 30; percent"));
}

TEST(TablesTest, TasksNameTheNumberOfExpertsUnlessItVaries) {
  v1::TasksResult result;
  v1::TaskResult& task = *result.add_results();
  task.set_task("sst2");
  task.set_active_experts(2);
  *task.add_metrics() = Accuracy(0.75, 0.7, 0.8);
  std::ostringstream fixed, varying;
  PrintTasksResult(result, fixed);
  EXPECT_THAT(fixed.str(), HasSubstr("sst2, 2 experts"));
  task.set_varying_experts(true);
  PrintTasksResult(result, varying);
  EXPECT_THAT(varying.str(), Not(HasSubstr("experts")));
}

TEST(TablesTest, WarnsOfDamagedAnswers) {
  v1::TasksResult result;
  v1::TaskResult& task = *result.add_results();
  task.set_task("sst2");
  *task.add_metrics() = Accuracy(0.75, 0.7, 0.8);
  task.set_num_damaged_answers(1200);
  std::ostringstream out;
  PrintTasksResult(result, out);
  EXPECT_THAT(out.str(), HasSubstr("warning: sst2: stored answers without a right checksum, not "
                                   "used: 1,200 ("));
}

}  // namespace tables_test
}  // namespace braid
