#include "client/data_order.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "control/supervision/run_history.h"
#include "proto/state_name.h"
#include "runs/instance_schedule.h"

namespace braid {
namespace {

InstanceSchedule ScheduleOf(const DataOrder& order) {
  return InstanceSchedule(order.dataset_key, order.seed, order.num_instances,
                          order.global_batch_size);
}

}  // namespace

bool WasTrainedOn(const DataOrder& order, int64_t step) {
  if (order.steps_done && step > *order.steps_done) return false;
  return std::ranges::none_of(order.skipped_steps, [step](const auto& range) {
    return range.first <= step && step <= range.second;
  });
}

absl::StatusOr<DataOrder> DataOrderOf(const v1::Job& job) {
  for (const v1::StageProgress& stage : job.stages()) {
    if (job.state() != v1::JOB_SUCCEEDED || stage.stage() != "pack" || stage.key().empty())
      continue;
    return DataOrder{.dataset_key = stage.key(), .num_instances = job.result().num_instances()};
  }
  return absl::FailedPreconditionError(absl::StrCat(job.id(), " has no dataset (state ",
                                                    StateName(job.state()), "); see: braid status ",
                                                    job.id()));
}

absl::StatusOr<std::vector<v1::LossSpike>> SpikesOfRun(TrainingClient& client, const v1::Run& run) {
  std::vector<v1::LossSpike> spikes(run.spikes().begin(), run.spikes().end());
  if (std::ssize(spikes) < kKeptIncidents) return spikes;
  spikes.clear();
  RETURN_IF_ERROR(client.WatchRun(run.id(), [&](const v1::RunEvent& event) {
    if (event.metrics().has_spike()) spikes.push_back(event.metrics().spike());
    // The watch of an active run would wait for further events.
    return event.number() < run.last_event();
  }));
  return spikes;
}

void TakeFromRun(const v1::Run& run, std::span<const v1::LossSpike> spikes, DataOrder* order) {
  order->run = run.id();
  order->global_batch_size = run.spec().batch().global_batch_size();
  order->seed = run.spec().seed();
  order->num_steps = run.spec().num_steps();
  order->steps_done = run.latest().step();
  for (const v1::LossSpike& spike : spikes) {
    // The policy CONTINUE trains on the batch of the spike.
    if (spike.first_skipped_step() == 0) continue;
    order->skipped_steps.emplace_back(spike.first_skipped_step(), spike.last_skipped_step());
  }
}

int64_t NumSteps(const DataOrder& order) {
  if (order.num_steps > 0) return order.num_steps;
  return (order.num_instances + order.global_batch_size - 1) / order.global_batch_size;
}

std::string NotTrainedOn(const DataOrder& order, int64_t step) {
  if (WasTrainedOn(order, step)) return "";
  if (step <= *order.steps_done) return ": not trained on, skipped after a loss spike";
  return absl::StrCat(": not trained on, the run has completed ",
                      Counted(*order.steps_done, "step"));
}

absl::StatusOr<std::vector<int64_t>> InstancesOfStep(const DataOrder& order, int64_t step) {
  if (step < 1 || step > NumSteps(order)) {
    const std::string whose = !order.run.empty()    ? order.run
                              : order.num_steps > 0 ? "--steps"
                                                    : "one pass without --steps";
    return absl::InvalidArgumentError(absl::StrCat("step: got ", step, ", expected 1 to ",
                                                   NumSteps(order), ", the steps of ", whose,
                                                   "; they count from 1 as in metrics.jsonl"));
  }
  // A schedule counts steps from 0; the only rank of a world of one has the whole batch.
  if (order.mixture == nullptr) {
    return ScheduleOf(order).Instances(step - 1, /*rank=*/0, /*world_size=*/1);
  }
  std::vector<int64_t> instances;
  for (const auto& item : order.mixture->Items(step - 1, /*rank=*/0, /*world_size=*/1)) {
    if (item.dataset == order.dataset) instances.push_back(item.instance);
  }
  return instances;
}

std::vector<int64_t> StepsOfInstance(const DataOrder& order, int64_t instance) {
  std::vector<int64_t> steps =
      order.mixture == nullptr ? ScheduleOf(order).StepsOf(instance, NumSteps(order))
                               : order.mixture->StepsOf(order.dataset, instance, NumSteps(order));
  for (int64_t& step : steps) ++step;
  std::erase_if(steps, [&](int64_t step) { return !WasTrainedOn(order, step); });
  return steps;
}

}  // namespace braid
