#include "control/supervision/run_history.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/check.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "control/supervision/run_event_log.h"
#include "proto/message_json.h"
#include "runs/run_state.h"

namespace braid {
namespace {

void AddIncident(const v1::RunIncident& incident, RunHistory* history) {
  history->restarts = history->RestartsBefore(incident.resumed_step()) + 1;
  history->restart_step = std::max(history->restart_step, incident.resumed_step());
  auto* incidents = history->run.mutable_incidents();
  if (incidents->size() == kKeptIncidents) incidents->DeleteSubrange(0, 1);
  *incidents->Add() = incident;
}

// Keeps the newest spikes and the newest validation.
void AddStepFindings(const v1::StepMetrics& metrics, v1::Run* run) {
  if (metrics.has_validation()) *run->mutable_validation() = metrics.validation();
  if (!metrics.has_spike()) return;
  auto* const spikes = run->mutable_spikes();
  if (spikes->size() == kKeptIncidents) spikes->DeleteSubrange(0, 1);
  *spikes->Add() = metrics.spike();
}

// Keeps the newest report of each rank that is slow now.
void AddSlowRank(const v1::SlowRank& slow, v1::Run* run) {
  auto* const ranks = run->mutable_slow_ranks();
  const auto is_same = [&](const v1::SlowRank& known) { return known.rank() == slow.rank(); };
  ranks->erase(std::remove_if(ranks->begin(), ranks->end(), is_same), ranks->end());
  if (!slow.recovered()) *ranks->Add() = slow;
}

void BeginAttempt(double time, RunHistory* history) {
  v1::Run& run = history->run;
  if (history->first_launch == 0) history->first_launch = time;
  // A run that had ended is resumed: the time in between is not lost, and earlier failures do not
  // count against the new launch. The clock may have been set back in between.
  if (HasEnded(run.state())) {
    history->paused_seconds += std::max(0.0, time - run.finished_at());
    history->restarts = 0;
    history->restart_step = -1;
  }
  run.set_attempts(run.attempts() + 1);
  run.clear_slow_ranks();
  run.clear_error();
  run.clear_finished_at();
}

}  // namespace

void RunHistory::Apply(const v1::RunEvent& event) {
  if (event.has_metrics()) {
    useful_seconds += event.metrics().step_seconds();
    newest_step = std::max(newest_step, event.metrics().step());
    AddStepFindings(event.metrics(), &run);
  }
  if (event.has_incident()) AddIncident(event.incident(), this);
  if (event.has_slow_rank()) AddSlowRank(event.slow_rank(), &run);
  // An attempt that a second supervisor announces again counts once.
  if (event.state() == v1::RUN_STARTING && run.state() != v1::RUN_STARTING) {
    BeginAttempt(event.time(), this);
  }
  if (HasEnded(event.state())) {
    run.clear_slow_ranks();
    run.set_finished_at(event.time());
    if (event.state() == v1::RUN_FAILED) run.set_error(event.message());
  }
  run.set_state(event.state());
  run.set_last_event(event.number());
}

double RunHistory::EffectiveTrainingTime(double now) const {
  const double end = HasEnded(run.state()) ? run.finished_at() : now;
  const double elapsed = end - first_launch - paused_seconds;
  return elapsed > 0 && first_launch > 0 ? std::min(1.0, useful_seconds / elapsed) : 0;
}

absl::Status WriteRunHistory(const std::filesystem::path& path, const RunHistory& history,
                             Durability durability) {
  const std::optional<std::string> run = MessageToJson(history.run);
  BRAID_CHECK(run.has_value());
  const nlohmann::json json = {{"nonce", history.nonce},
                               {"first_launch", history.first_launch},
                               {"paused_seconds", history.paused_seconds},
                               {"useful_seconds", history.useful_seconds},
                               {"newest_step", history.newest_step},
                               {"restarts", history.restarts},
                               {"restart_step", history.restart_step},
                               {"run", nlohmann::json::parse(*run)}};
  return WriteFileAtomically(path, SealJson(json), durability);
}

std::optional<RunHistory> ReadRunHistory(const std::filesystem::path& path) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return std::nullopt;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const absl::StatusOr<nlohmann::json> object = OpenSealedJson(*text, path);
  if (!object.ok()) return std::nullopt;
  const nlohmann::json& json = *object;
  RunHistory history;
  try {
    json.at("nonce").get_to(history.nonce);
    json.at("first_launch").get_to(history.first_launch);
    json.at("paused_seconds").get_to(history.paused_seconds);
    json.at("useful_seconds").get_to(history.useful_seconds);
    json.at("newest_step").get_to(history.newest_step);
    json.at("restarts").get_to(history.restarts);
    json.at("restart_step").get_to(history.restart_step);
    const std::string run = json.at("run").dump();
    if (!google::protobuf::util::JsonStringToMessage(run, &history.run, options).ok()) {
      return std::nullopt;
    }
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
  return history;
}

absl::StatusOr<RunHistory> LoadRunHistory(const std::filesystem::path& supervision,
                                          const std::filesystem::path& events) {
  RunHistory history = ReadRunHistory(supervision).value_or(RunHistory());
  const std::optional<v1::RunEvent> newest = ReadNewestRunEvent(events);
  // The log was truncated. The summary is only a cache of the log, so it is built again.
  if (history.run.last_event() > (newest ? newest->number() : 0)) history = RunHistory();
  ASSIGN_OR_RETURN(const std::vector<v1::RunEvent> missing,
                   ReadRunEvents(events, history.run.last_event()));
  for (const v1::RunEvent& event : missing) history.Apply(event);
  return history;
}

}  // namespace braid
