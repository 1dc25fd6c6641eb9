#include "cli/quickstart_plan.h"

#include "absl/strings/str_cat.h"

namespace braid {

std::string QuickstartRun::name() const {
  return absl::StrCat(moe ? "moe" : "dense", order == v1::SIMILARITY ? "-similarity" : "-random");
}

std::vector<QuickstartRun> QuickstartRuns() {
  return {{.moe = false, .order = v1::SIMILARITY},
          {.moe = true, .order = v1::SIMILARITY},
          {.moe = false, .order = v1::RANDOM},
          {.moe = true, .order = v1::RANDOM}};
}

v1::CorpusSpec QuickstartCorpus(const std::vector<std::string>& paths, v1::OrderMode order) {
  v1::CorpusSpec spec;
  spec.set_name("quickstart");
  for (const std::string& path : paths) spec.add_paths(path);
  spec.mutable_ingest()->set_split_bytes(kQuickstartDocumentBytes);
  spec.mutable_tokenizer()->set_vocab_size(2048);
  spec.mutable_tokenizer()->set_sample_bytes(4 << 20);
  spec.mutable_neighbors()->set_k(16);
  spec.mutable_pack()->set_sequence_length(512);
  spec.set_order(order);
  return spec;
}

v1::RunSpec QuickstartRunSpec(const QuickstartRun& run, const std::string& dataset_dir,
                              int64_t num_steps) {
  v1::RunSpec spec;
  spec.set_name(run.name());
  spec.set_dataset_dir(dataset_dir);
  spec.mutable_model()->set_preset(run.moe ? "tiny/8E" : "tiny");
  spec.mutable_optimizer()->set_learning_rate(6e-3);
  spec.mutable_batch()->set_global_batch_size(4);
  spec.set_num_steps(num_steps);
  spec.set_world_size(1);
  spec.set_threads_per_rank(1);
  return spec;
}

}  // namespace braid
