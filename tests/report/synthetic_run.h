// Runs with plausible numbers, for tests of the report.
#ifndef BRAID_TESTS_REPORT_SYNTHETIC_RUN_H_
#define BRAID_TESTS_REPORT_SYNTHETIC_RUN_H_

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "report/report_run.h"

namespace braid {

inline const std::vector<std::string>& SyntheticDomains() {
  static const std::vector<std::string> domains = {"c-headers",  "python",   "manual pages",
                                                   "changelogs", "licenses", "perl"};
  return domains;
}

inline v1::RunSpec SyntheticSpec(int num_experts, const std::string& dataset_dir) {
  v1::RunSpec spec;
  spec.set_name(num_experts > 1 ? "moe" : "dense");
  spec.set_dataset_dir(dataset_dir);
  spec.set_num_steps(480);
  spec.set_world_size(1);
  spec.mutable_batch()->set_global_batch_size(4);
  spec.mutable_optimizer()->set_learning_rate(6e-3);
  v1::ModelConfig* model = spec.mutable_model();
  model->set_num_layers(4);
  model->set_d_model(64);
  model->set_num_heads(2);
  model->set_d_ff(256);
  model->set_vocab_size(2048);
  model->set_sequence_length(512);
  model->mutable_routing()->set_num_experts(num_experts);
  model->mutable_routing()->set_segment_length(64);
  model->mutable_routing()->set_router(num_experts > 1 ? v1::CAUSAL_SEGMENT : v1::DENSE);
  return spec;
}

inline v1::StepMetrics SyntheticStep(int step, double gain, int num_experts, std::mt19937* random) {
  // Both models of a pair have the same sequences, so they have the same noise.
  std::mt19937 shared(1000 + step);
  std::normal_distribution<double> noise(0, 0.08);
  const double upcycled = std::max(0, step - 24) / 456.0;
  v1::StepMetrics metrics;
  metrics.set_step(step);
  metrics.set_loss(4.4 + 3.2 * std::exp(-step / 70.0) - gain * std::sqrt(upcycled) + noise(shared) +
                   0.1 * noise(*random));
  metrics.set_loss_after_first_segment(metrics.loss() - 0.03);
  metrics.set_num_tokens(2048 * step);
  metrics.set_tokens_per_second(11000 + 500 * noise(*random));
  metrics.set_step_seconds(0.18);
  metrics.set_gflops(num_experts > 1 ? 88 : 84);
  metrics.set_model_flops_utilization(metrics.gflops() / 140);
  metrics.set_peak_resident_mb(num_experts > 1 ? 900 : 420);
  metrics.mutable_times()->set_ffn(0.09);
  metrics.mutable_times()->set_merge(num_experts > 1 ? 0.03 : 0);
  metrics.mutable_times()->set_other(0.03);
  metrics.set_upcycled(num_experts > 1 && step > 24);
  if (!metrics.upcycled() || step % 10 != 0) return metrics;
  for (int layer = 0; layer < 4; ++layer) {
    v1::LayerRouting* routing = metrics.add_routing();
    routing->set_layer(layer);
    routing->set_effective_experts(num_experts - (1 + layer) * upcycled + 2 * noise(*random));
    routing->set_active_experts(num_experts - (step / 200) - (layer == 0));
    routing->set_entropy(std::log(num_experts) - 0.3 * upcycled);
    routing->set_expert_cosine(1 - 0.1 * upcycled * (1 + layer));
    for (int e = 0; e < num_experts; ++e) routing->add_mean_weights(1.0 / num_experts);
  }
  return metrics;
}

inline v1::DomainEvaluation SyntheticDomain(const std::string& name, size_t index, double gain,
                                            int num_experts) {
  v1::DomainEvaluation domain;
  domain.set_domain(name);
  domain.set_num_tokens(20000);
  domain.set_num_tokens_after_first_segment(17500);
  domain.set_loss(4.1 + 0.25 * static_cast<double>(index % 3) - 1.4 * gain);
  domain.set_loss_after_first_segment(domain.loss() - 0.05 + 0.4 * gain);
  domain.set_perplexity(std::exp(domain.loss()));
  domain.set_perplexity_after_first_segment(std::exp(domain.loss_after_first_segment()));
  for (int layer = 0; layer < 4 && num_experts > 1; ++layer) {
    v1::LayerWeights* weights = domain.add_routing();
    weights->set_layer(layer);
    double sum = 0;
    std::vector<double> raw;
    for (int e = 0; e < num_experts; ++e) {
      raw.push_back(std::exp(0.5 * layer * std::cos(2.1 * e + 1.3 * static_cast<double>(index))));
      sum += raw.back();
    }
    for (const double weight : raw) weights->add_weights(weight / sum);
  }
  return domain;
}

inline ReportRun SyntheticRun(const std::string& title, int num_experts, double gain,
                              const std::string& order) {
  ReportRun run;
  run.title = title;
  run.spec = SyntheticSpec(num_experts, "/data/" + order);
  std::mt19937 random(num_experts + static_cast<unsigned>(order.size()));
  for (int step = 1; step <= 480; ++step) {
    run.metrics.push_back(SyntheticStep(step, gain, num_experts, &random));
  }
  v1::Evaluation evaluation;
  const auto& domains = SyntheticDomains();
  for (size_t i = 0; i < domains.size(); ++i) {
    *evaluation.add_domains() = SyntheticDomain(domains[i], i, gain, num_experts);
  }
  *evaluation.mutable_total() = SyntheticDomain("all", 1, gain, 1);
  run.evaluation = evaluation;
  run.ordering_report_json =
      R"({"order":")" + order + R"(","num_documents":7123,"adjacent_cosine":0.262,)" +
      R"("random_adjacent_cosine":0.013,"adjacent_cosine_across_instances":0.051,"restarts":212,)" +
      R"("mean_path_length":33.6,"domain_purity":0.67,"random_domain_purity":0.14,)" +
      R"("recall_at_k":1.0,"k":16})";
  run.sample_text = "The library <stdio.h> declares\n\tint printf(const char *format, ...);\n";
  return run;
}

inline std::vector<ReportRun> SyntheticRuns() {
  return {SyntheticRun("dense-similarity (run-000001)", 1, 0, "SIMILARITY"),
          SyntheticRun("moe-similarity (run-000002)", 8, 0.11, "SIMILARITY"),
          SyntheticRun("dense-random (run-000003)", 1, 0, "RANDOM"),
          SyntheticRun("moe-random (run-000004)", 8, 0.03, "RANDOM")};
}

}  // namespace braid

#endif  // BRAID_TESTS_REPORT_SYNTHETIC_RUN_H_
