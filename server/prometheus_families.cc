#include "server/prometheus_families.h"

#include <prometheus/client_metric.h>
#include <prometheus/metric_type.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "braid/v1/pipeline.pb.h"
#include "proto/state_name.h"

namespace braid {
namespace {

using Labels = std::vector<std::pair<std::string, std::string>>;

// Builds one metric family.
class Family {
 public:
  Family(std::string name, std::string help,
         prometheus::MetricType type = prometheus::MetricType::Gauge) {
    family_.name = std::move(name);
    family_.help = std::move(help);
    family_.type = type;
  }

  void Add(const Labels& labels, double value) {
    prometheus::ClientMetric metric;
    for (const auto& [name, text] : labels) {
      prometheus::ClientMetric::Label label;
      label.name = name;
      label.value = text;
      metric.label.push_back(std::move(label));
    }
    // Only the field for the type of the family is read.
    metric.gauge.value = value;
    metric.counter.value = value;
    family_.metric.push_back(std::move(metric));
  }

  prometheus::MetricFamily Take() { return std::move(family_); }

 private:
  prometheus::MetricFamily family_;
};

// Returns "running" for JOB_RUNNING.
template <class State>
std::string StateLabel(State state) {
  return absl::AsciiStrToLower(StateName(state));
}

bool IsRecent(double finished_at, double now) {
  return finished_at <= 0 || now - finished_at < kRecentSeconds;
}

// A metric of a stage: its name, help, type and value.
struct StageFigure {
  const char* name;
  const char* help;
  double (*value)(const v1::StageProgress&);
};

constexpr StageFigure kStageFigures[] = {
    {"braid_stage_complete", "1 once the stage is committed.",
     [](const v1::StageProgress& s) { return s.complete() ? 1.0 : 0.0; }},
    {"braid_stage_progress_ratio", "Completed fraction of the stage; 0 while the total is unknown.",
     [](const v1::StageProgress& s) {
       if (s.complete()) return 1.0;
       return s.total() > 0 ? static_cast<double>(s.done()) / static_cast<double>(s.total()) : 0.0;
     }},
    {"braid_stage_seconds", "Seconds spent in the stage so far.",
     [](const v1::StageProgress& s) { return s.seconds(); }},
    {"braid_stage_chunk", "Current chunk, from 1; 0 when the stage has no chunks.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.chunk()); }},
    {"braid_stage_num_chunks", "Chunks of the stage; 0 when unknown.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.num_chunks()); }},
    {"braid_stage_num_resume_points", "Resume points saved, also by earlier attempts.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.num_resume_points()); }},
    {"braid_stage_documents", "Documents processed.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.documents()); }},
    {"braid_stage_bytes", "Bytes processed: of input for ingest, of text for other stages.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.bytes()); }},
    {"braid_stage_documents_per_second",
     "Recent documents per second; the mean of the whole stage once it is complete.",
     [](const v1::StageProgress& s) { return s.documents_per_second(); }},
    {"braid_stage_bytes_per_second",
     "Recent bytes per second; the mean of the whole stage once it is complete.",
     [](const v1::StageProgress& s) { return s.bytes_per_second(); }},
    {"braid_stage_eta_seconds", "Seconds to the end of the stage; 0 when unknown or complete.",
     [](const v1::StageProgress& s) { return s.eta_seconds(); }},
    {"braid_stage_rejects", "Records of the input rejected so far.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.rejects()); }},
    {"braid_stage_resident_bytes", "Resident memory of the process while it ran the stage.",
     [](const v1::StageProgress& s) { return static_cast<double>(s.resident_bytes()); }},
};

struct RunFigure {
  const char* name;
  const char* help;
  double (*value)(const v1::Run&);
};

constexpr RunFigure kRunFigures[] = {
    {"braid_run_step", "Optimizer steps completed.",
     [](const v1::Run& r) { return static_cast<double>(r.latest().step()); }},
    {"braid_run_num_steps", "Optimizer steps of the whole run.",
     [](const v1::Run& r) { return static_cast<double>(r.spec().num_steps()); }},
    {"braid_run_loss", "Loss of the latest step in nats per token.",
     [](const v1::Run& r) { return r.latest().loss(); }},
    {"braid_run_num_tokens", "Tokens predicted so far.",
     [](const v1::Run& r) { return static_cast<double>(r.latest().num_tokens()); }},
    {"braid_run_tokens_per_second", "Tokens per second of the latest step.",
     [](const v1::Run& r) { return r.latest().tokens_per_second(); }},
    {"braid_run_eta_seconds", "Seconds to completion; 0 when unknown.",
     [](const v1::Run& r) { return r.eta_seconds(); }},
    {"braid_run_resident_bytes", "Resident memory of rank 0.",
     [](const v1::Run& r) { return r.latest().resident_mb() * (1 << 20); }},
};

struct ServingFigure {
  const char* name;
  const char* help;
  prometheus::MetricType type;
  int64_t (v1::DescribeServingResponse::*value)() const;
};

constexpr ServingFigure kServingFigures[] = {
    {"braid_generation_active", "Requests in progress.", prometheus::MetricType::Gauge,
     &v1::DescribeServingResponse::active},
    {"braid_generation_waiting", "Requests in the queue.", prometheus::MetricType::Gauge,
     &v1::DescribeServingResponse::waiting},
    {"braid_generation_tokens_total", "Tokens sampled.", prometheus::MetricType::Counter,
     &v1::DescribeServingResponse::tokens_sampled},
    {"braid_generation_done_total", "Requests completed.", prometheus::MetricType::Counter,
     &v1::DescribeServingResponse::requests_done},
    {"braid_generation_failed_total", "Requests that failed.", prometheus::MetricType::Counter,
     &v1::DescribeServingResponse::requests_failed},
    {"braid_generation_cancelled_total", "Requests canceled by their clients.",
     prometheus::MetricType::Counter, &v1::DescribeServingResponse::requests_cancelled},
    {"braid_generation_refused_total", "Requests refused because the queue was full.",
     prometheus::MetricType::Counter, &v1::DescribeServingResponse::requests_refused},
};

// Returns the number of items in each state of an enumeration, including states with none, but
// without the unspecified state.
template <class Message>
Family CountStates(const std::string& name, const std::string& help,
                   const google::protobuf::EnumDescriptor& states,
                   const google::protobuf::RepeatedPtrField<Message>& all) {
  using State = decltype(Message().state());
  std::map<int, int> counts;
  for (const Message& message : all) ++counts[message.state()];
  Family family(name, help);
  for (int i = 0; i < states.value_count(); ++i) {
    const int number = states.value(i)->number();
    if (number == 0) continue;
    family.Add({{"state", StateLabel(static_cast<State>(number))}}, counts[number]);
  }
  return family;
}

// Incidents by kind, for the runs that have had any.
Family IncidentFamily(const v1::ListRunsResponse& runs, double now) {
  Family family("braid_run_incidents", "Incidents among the newest 20 of the run, by kind.");
  for (const v1::Run& run : runs.runs()) {
    if (!IsRecent(run.finished_at(), now)) continue;
    std::map<int, int> counts;
    for (const v1::RunIncident& incident : run.incidents()) ++counts[incident.kind()];
    for (const auto& [kind, count] : counts) {
      const std::string name = v1::IncidentKind_Name(static_cast<v1::IncidentKind>(kind));
      family.Add({{"run", run.id()}, {"kind", absl::AsciiStrToLower(name)}}, count);
    }
  }
  return family;
}

}  // namespace

std::vector<prometheus::MetricFamily> JobFamilies(const v1::ListJobsResponse& jobs, double now) {
  std::vector<prometheus::MetricFamily> families;
  families.push_back(
      CountStates("braid_jobs", "Corpus jobs by state.", *v1::JobState_descriptor(), jobs.jobs())
          .Take());
  for (const StageFigure& figure : kStageFigures) {
    Family family(figure.name, figure.help);
    for (const v1::Job& job : jobs.jobs()) {
      if (!IsRecent(job.finished_at(), now)) continue;
      for (const v1::StageProgress& stage : job.stages()) {
        family.Add({{"job", job.id()}, {"stage", stage.stage()}}, figure.value(stage));
      }
    }
    families.push_back(family.Take());
  }
  return families;
}

std::vector<prometheus::MetricFamily> RunFamilies(const v1::ListRunsResponse& runs, double now) {
  std::vector<prometheus::MetricFamily> families;
  families.push_back(
      CountStates("braid_runs", "Training runs by state.", *v1::RunState_descriptor(), runs.runs())
          .Take());
  for (const RunFigure& figure : kRunFigures) {
    Family family(figure.name, figure.help);
    for (const v1::Run& run : runs.runs()) {
      // A run has no metrics before its first step.
      if (!IsRecent(run.finished_at(), now) || !run.has_latest()) continue;
      family.Add({{"run", run.id()}}, figure.value(run));
    }
    families.push_back(family.Take());
  }
  Family state("braid_run_state", "1, with the state of the run.");
  Family restarts("braid_run_restarts", "Attempts after the first.");
  Family slow("braid_run_slow_ranks", "Ranks that slow down the others.");
  for (const v1::Run& run : runs.runs()) {
    if (!IsRecent(run.finished_at(), now)) continue;
    state.Add({{"run", run.id()}, {"state", StateLabel(run.state())}}, 1);
    // A run that waits for its first start has no attempts.
    restarts.Add({{"run", run.id()}}, std::max(0, run.attempts() - 1));
    slow.Add({{"run", run.id()}}, run.slow_ranks_size());
  }
  families.push_back(state.Take());
  families.push_back(restarts.Take());
  families.push_back(slow.Take());
  families.push_back(IncidentFamily(runs, now).Take());
  return families;
}

std::vector<prometheus::MetricFamily> ServerFamilies(const ServerFigures& figures) {
  const auto one = [](const char* name, const char* help, double value,
                      prometheus::MetricType type = prometheus::MetricType::Gauge) {
    Family family(name, help, type);
    family.Add({}, value);
    return family.Take();
  };
  const auto count = [&](const char* name, const char* help, int64_t value) {
    return one(name, help, static_cast<double>(value), prometheus::MetricType::Counter);
  };
  const ConnectionCounts& connections = figures.connections;
  Family tokens("braid_token_expiry_timestamp_seconds", "Unix time at which a token expires.");
  Family certificates("braid_certificate_expiry_timestamp_seconds",
                      "Unix time at which the first certificate of a file expires.");
  for (const Expiry& expiry : figures.expiries) {
    const bool token = expiry.kind == "token";
    (token ? tokens : certificates)
        .Add({{token ? "token" : "file", expiry.name}}, static_cast<double>(expiry.at));
  }
  return {
      one("braid_server_connections", "Open connections.", static_cast<double>(connections.open)),
      one("braid_server_connections_limit", "Maximum open connections.",
          static_cast<double>(connections.max_open)),
      count("braid_server_connections_accepted_total", "Connections accepted.",
            connections.accepted),
      count("braid_server_connections_refused_total", "Connections refused beyond a limit.",
            connections.refused),
      count("braid_server_accept_failures_total",
            "Connections that found no free descriptor or memory.", connections.exhausted),
      count("braid_server_listener_reopened_total",
            "Times that the listening socket failed and was opened again.", connections.reopened),
      one("braid_disk_free_bytes", "Free space on the file system of the home directory.",
          static_cast<double>(figures.disk_free_bytes)),
      one("braid_disk_size_bytes", "Size of the file system of the home directory.",
          static_cast<double>(figures.disk_size_bytes)),
      tokens.Take(),
      certificates.Take()};
}

std::vector<prometheus::MetricFamily> ServingFamilies(const v1::DescribeServingResponse& serving) {
  std::vector<prometheus::MetricFamily> families;
  for (const ServingFigure& figure : kServingFigures) {
    Family family(figure.name, figure.help, figure.type);
    family.Add({}, static_cast<double>((serving.*figure.value)()));
    families.push_back(family.Take());
  }
  Family models("braid_generation_models", "Models in memory.");
  models.Add({}, serving.models_size());
  families.push_back(models.Take());
  return families;
}

}  // namespace braid
