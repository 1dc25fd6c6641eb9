#include "server/prometheus_families.h"

#include <gtest/gtest.h>
#include <prometheus/text_serializer.h>

#include <set>
#include <string>

#include "braid/v1/pipeline.pb.h"

namespace braid {
namespace prometheus_families_test {

constexpr double kNow = 1e9;

std::string Text(const std::vector<prometheus::MetricFamily>& families) {
  return prometheus::TextSerializer().Serialize(families);
}

bool Has(const std::string& text, const std::string& line) {
  return ("\n" + text).find("\n" + line + "\n") != std::string::npos;
}

v1::Job* AddJob(v1::ListJobsResponse* jobs, v1::JobState state, double finished_at) {
  v1::Job* const job = jobs->add_jobs();
  job->set_id("job-00000" + std::to_string(jobs->jobs_size()));
  job->set_state(state);
  job->set_finished_at(finished_at);
  v1::StageProgress* const stage = job->add_stages();
  stage->set_stage("embed");
  stage->set_done(30);
  stage->set_total(40);
  stage->set_num_resume_points(4);
  stage->set_documents(30);
  stage->set_documents_per_second(12.5);
  stage->set_eta_seconds(0.8);
  stage->set_resident_bytes(1 << 30);
  return job;
}

TEST(PrometheusFamiliesTest, CountsJobsByStateAndMeasuresTheirStages) {
  v1::ListJobsResponse jobs;
  AddJob(&jobs, v1::JOB_RUNNING, 0);
  const std::string text = Text(JobFamilies(jobs, kNow));
  EXPECT_TRUE(Has(text, "braid_jobs{state=\"running\"} 1")) << text;
  EXPECT_TRUE(Has(text, "braid_jobs{state=\"failed\"} 0"));
  const std::string labels = "{job=\"job-000001\",stage=\"embed\"} ";
  EXPECT_TRUE(Has(text, "braid_stage_num_resume_points" + labels + "4"));
  EXPECT_TRUE(Has(text, "braid_stage_documents" + labels + "30"));
  EXPECT_TRUE(Has(text, "braid_stage_documents_per_second" + labels + "12.5"));
  EXPECT_TRUE(Has(text, "braid_stage_eta_seconds" + labels + "0.8"));
  EXPECT_TRUE(Has(text, "braid_stage_progress_ratio" + labels + "0.75"));
  EXPECT_TRUE(Has(text, "braid_stage_resident_bytes" + labels + "1073741824"));
  EXPECT_TRUE(Has(text, "# TYPE braid_stage_documents gauge"));
}

TEST(PrometheusFamiliesTest, DropsTheSeriesOfJobsThatEndedLongAgo) {
  v1::ListJobsResponse jobs;
  AddJob(&jobs, v1::JOB_SUCCEEDED, kNow - kRecentSeconds - 1);
  AddJob(&jobs, v1::JOB_SUCCEEDED, kNow - kRecentSeconds + 1);
  AddJob(&jobs, v1::JOB_QUEUED, 0);
  const std::string text = Text(JobFamilies(jobs, kNow));
  EXPECT_EQ(text.find("job-000001"), text.npos);
  EXPECT_NE(text.find("job-000002"), text.npos);
  EXPECT_NE(text.find("job-000003"), text.npos);
  EXPECT_TRUE(Has(text, "braid_jobs{state=\"succeeded\"} 2")) << "but counts them";
}

TEST(PrometheusFamiliesTest, MeasuresRunsFromTheirFirstStep) {
  v1::ListRunsResponse runs;
  v1::Run* const run = runs.add_runs();
  run->set_id("run-000001");
  run->set_state(v1::RUN_STARTING);
  run->set_attempts(3);
  run->add_slow_ranks();
  run->add_incidents()->set_kind(v1::RANK_HUNG);
  const std::string early = Text(RunFamilies(runs, kNow));
  EXPECT_EQ(early.find("braid_run_step{"), std::string::npos);
  EXPECT_TRUE(Has(early, "braid_run_state{run=\"run-000001\",state=\"starting\"} 1"));
  EXPECT_TRUE(Has(early, "braid_run_restarts{run=\"run-000001\"} 2")) << early;
  EXPECT_TRUE(Has(early, "braid_run_slow_ranks{run=\"run-000001\"} 1"));
  EXPECT_TRUE(Has(early, "braid_run_incidents{run=\"run-000001\",kind=\"rank_hung\"} 1"));
  run->set_state(v1::RUN_RUNNING);
  run->mutable_spec()->set_num_steps(100);
  run->mutable_latest()->set_step(7);
  run->mutable_latest()->set_loss(3.5);
  run->mutable_latest()->set_tokens_per_second(1000);
  const std::string text = Text(RunFamilies(runs, kNow));
  EXPECT_TRUE(Has(text, "braid_runs{state=\"running\"} 1")) << text;
  EXPECT_TRUE(Has(text, "braid_run_state{run=\"run-000001\",state=\"running\"} 1"));
  EXPECT_FALSE(Has(text, "braid_run_state{run=\"run-000001\",state=\"starting\"} 1"));
  EXPECT_TRUE(Has(text, "braid_run_step{run=\"run-000001\"} 7"));
  EXPECT_TRUE(Has(text, "braid_run_num_steps{run=\"run-000001\"} 100"));
  EXPECT_TRUE(Has(text, "braid_run_loss{run=\"run-000001\"} 3.5"));
  EXPECT_TRUE(Has(text, "braid_run_tokens_per_second{run=\"run-000001\"} 1000"));
}

TEST(PrometheusFamiliesTest, NamesAreUniqueAndFollowTheConventions) {
  std::set<std::string> names;
  std::vector<prometheus::MetricFamily> all = JobFamilies({}, kNow);
  for (auto& family : RunFamilies({}, kNow)) all.push_back(std::move(family));
  for (auto& family : ServerFamilies({})) all.push_back(std::move(family));
  for (auto& family : ServingFamilies({})) all.push_back(std::move(family));
  EXPECT_GT(all.size(), 20u);
  for (const prometheus::MetricFamily& family : all) {
    EXPECT_TRUE(names.insert(family.name).second) << family.name;
    EXPECT_EQ(family.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string::npos);
    EXPECT_FALSE(family.help.empty());
  }
}

}  // namespace prometheus_families_test
}  // namespace braid
