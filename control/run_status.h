// What a run is doing, derived from its run directory whenever somebody asks:
// there is no second copy of the truth that could disagree with it.
#ifndef BRAID_CONTROL_RUN_STATUS_H_
#define BRAID_CONTROL_RUN_STATUS_H_

#include <span>
#include <string>

#include "braid/v1/training.pb.h"
#include "control/run_store.h"
#include "control/supervision/log_tail.h"
#include "runs/run_directory.h"
#include "runs/run_state.h"

namespace braid {

// A supervised run is in the state of its newest event; how often it was started and why, its slow
// ranks and effective training time are those of supervision.json: all reads are of bounded size.
// One without events:
//
// RUN_STARTING   launched, but no rank has reported yet
// RUN_RUNNING    its process is there
// RUN_SUCCEEDED, RUN_STOPPED, RUN_FAILED    as exit.json says; without one, the
//                process ended early: stopped when asked to, else failed, with
//                the end of trainer.log as the error
// `latest` is the newest step, with the newest routing of the last steps where
// it has none itself. `now` in Unix seconds.
v1::Run DescribeRun(const RunRecord& record, double now);

// Seconds until `num_steps` at the pace of `recent` steps; 0 when unknown.
double EtaSeconds(std::span<const v1::StepMetrics> recent, int64_t num_steps);

}  // namespace braid

#endif  // BRAID_CONTROL_RUN_STATUS_H_
