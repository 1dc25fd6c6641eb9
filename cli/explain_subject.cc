#include "cli/explain_subject.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "runs/mixture_spec.h"

namespace braid {
namespace {

bool SameDirectory(const std::string& a, const std::string& b) {
  std::error_code error;
  return std::filesystem::path(a).lexically_normal() ==
             std::filesystem::path(b).lexically_normal() ||
         std::filesystem::equivalent(a, b, error);
}

// Returns the jobs whose datasets a run trains on, in the order of the run's datasets.
absl::StatusOr<std::vector<v1::Job>> JobsOfRun(PipelineClient& client, const v1::Run& run) {
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response, client.ListJobs());
  std::vector<std::string> datasets;
  for (const v1::MixtureDataset& entry : run.spec().datasets()) datasets.push_back(entry.dataset());
  if (datasets.empty()) datasets.push_back(run.spec().dataset_dir());
  std::vector<v1::Job> jobs;
  for (const std::string& dataset : datasets) {
    const auto found = std::find_if(
        response.jobs().begin(), response.jobs().end(),
        [&](const v1::Job& job) { return SameDirectory(job.result().dataset_dir(), dataset); });
    if (found == response.jobs().end()) {
      return absl::NotFoundError(absl::StrCat("no job has the dataset ", dataset, " of ", run.id(),
                                              "; list jobs with: braid jobs"));
    }
    jobs.push_back(*found);
  }
  return jobs;
}

}  // namespace

absl::StatusOr<std::vector<CorpusSubject>> SubjectsOfRun(PipelineClient& client, const v1::Run& run,
                                                         std::span<const v1::LossSpike> spikes) {
  ASSIGN_OR_RETURN(const std::vector<v1::Job> jobs, JobsOfRun(client, run));
  std::vector<CorpusSubject> subjects;
  std::vector<DatasetInfo> infos;
  for (const v1::Job& job : jobs) {
    CorpusSubject& subject = subjects.emplace_back();
    subject.job = job;
    ASSIGN_OR_RETURN(subject.order, DataOrderOf(job));
    infos.emplace_back();
    infos.back().key = subject.order.dataset_key;
    infos.back().num_instances = subject.order.num_instances;
    TakeFromRun(run, spikes, &subject.order);
  }
  if (subjects.size() == 1 && !run.spec().batch().has_warmup()) return subjects;
  const auto mixture = std::make_shared<MixtureSchedule>(ScheduleOfMixture(run.spec(), infos));
  for (size_t d = 0; d < subjects.size(); ++d) {
    subjects[d].order.mixture = mixture;
    subjects[d].order.dataset = static_cast<int32_t>(d);
  }
  return subjects;
}

absl::StatusOr<CorpusSubject> SubjectOfJob(const v1::Job& job, const v1::Run& run,
                                           const std::vector<CorpusSubject>& subjects) {
  for (const CorpusSubject& subject : subjects) {
    if (subject.job.id() == job.id() ||
        SameDirectory(subject.job.result().dataset_dir(), job.result().dataset_dir())) {
      return subject;
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--run: ", run.id(), " trains on ", run.spec().dataset_dir(),
                   ", expected the dataset of ", job.id(), ", ", job.result().dataset_dir(),
                   "; explain the run by itself with: braid explain ", run.id()));
}

}  // namespace braid
