// Measures the cost of metrics: an event file during training, and exports of a long run.
//
//   braid-bench-metrics-export [STEPS [LAYERS [EXPERTS]]]      100000 24 32 by default
//
// Prints the microseconds per step for metrics.jsonl and for the event file, then seconds, bytes
// and peak memory of the exports of a run that measured routing in every tenth step.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>

#include "absl/strings/str_format.h"
#include "base/process_memory.h"
#include "runs/metrics_export/metrics_export.h"
#include "runs/metrics_export/tensorboard_log.h"
#include "runs/metrics_log.h"
#include "tests/base/scratch_directory.h"
#include "tests/bench/or_exit.h"
#include "trainer/step_metrics.h"

namespace braid {
namespace {

struct Shape {
  int64_t steps = 100000;
  int layers = 24, experts = 32;
};

double Now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count();
}

v1::StepMetrics Step(int64_t step, const Shape& shape) {
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_time(1.7e9 + 0.1 * static_cast<double>(step));
  metrics.set_loss(2 + 1 / (1 + 0.001 * static_cast<double>(step)));
  metrics.set_tokens_per_second(24094.241998911682);
  metrics.set_num_tokens(2048 * step);
  *metrics.mutable_times() = StepTimesOf({}, 0.084999561309814453);
  if (step % 10 != 0) return metrics;
  for (int l = 0; l < shape.layers; ++l) {
    v1::LayerRouting* layer = metrics.add_routing();
    layer->set_layer(l);
    layer->set_entropy(1.8024510601500139);
    for (int e = 0; e < shape.experts; ++e) layer->add_mean_weights(1.0 / (3 + e + 0.1 * l));
  }
  return metrics;
}

// Writes both files like the trainer.
void WriteRun(const RunDirectory& run, const Shape& shape) {
  auto lines = OrExit(MetricsLog::Open(run.metrics(), 0));
  TensorBoardLog events(run.tensorboard(), {}, &std::cerr);
  double in_lines = 0, in_events = 0;
  for (int64_t step = 1; step <= shape.steps; ++step) {
    const v1::StepMetrics metrics = Step(step, shape);
    const double begin = Now();
    OrExit(lines->Append(metrics));
    const double between = Now();
    events.Append(metrics);
    in_lines += between - begin;
    in_events += Now() - between;
  }
  const double microseconds = 1e6 / static_cast<double>(shape.steps);
  std::cout << absl::StrFormat("a step: metrics.jsonl %.1f us, event file %.1f us\n",
                               in_lines * microseconds, in_events * microseconds);
}

void Export(const RunDirectory& run, v1::MetricsFormat format) {
  int64_t bytes = 0;
  const double begin = Now();
  const absl::Status status = ExportMetrics(run, format, [&](const v1::ExportMetricsChunk& chunk) {
    bytes += static_cast<int64_t>(chunk.data().size());
    return absl::OkStatus();
  });
  std::cout << absl::StrFormat("%-10s %s  %.2f s  %.1f MB  peak %d MiB\n",
                               v1::MetricsFormat_Name(format), status.ToString(), Now() - begin,
                               static_cast<double>(bytes) / 1e6,
                               ReadProcessMemory().peak_resident_bytes >> 20);
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::Shape shape;
  if (argc > 1) shape.steps = std::atoll(argv[1]);
  if (argc > 2) shape.layers = std::atoi(argv[2]);
  if (argc > 3) shape.experts = std::atoi(argv[3]);
  const braid::ScratchDirectory scratch;
  const braid::RunDirectory run(scratch / "run-000001");
  braid::OrExit(run.WriteSpec({}));
  braid::WriteRun(run, shape);
  std::cout << absl::StrFormat(
      "metrics.jsonl %.1f MB\n",
      static_cast<double>(std::filesystem::file_size(run.metrics())) / 1e6);
  for (const auto format : {braid::v1::SUMMARY, braid::v1::CSV, braid::v1::TENSORBOARD}) {
    braid::Export(run, format);
  }
}
