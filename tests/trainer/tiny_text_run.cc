#include "tests/trainer/tiny_text_run.h"

#include <string>
#include <vector>

#include "base/atomic_file.h"
#include "base/check.h"
#include "formats/tokenizer.h"
#include "runs/run_spec.h"
#include "tests/trainer/tiny_run.h"

namespace braid {

namespace fs = std::filesystem;

fs::path NewTokenizer(const std::string& text, int32_t vocab_size) {
  const fs::path path = NewDirectory("tokenizer") / "tokenizer.model";
  const std::vector<std::string> texts(20, text);
  const absl::Status status = TrainTokenizer(texts, {.vocab_size = vocab_size}, path);
  BRAID_CHECK(status.ok()) << status.ToString();
  return path;
}

fs::path NewTextDataset(const fs::path& tokenizer, int64_t sequence_length) {
  const fs::path dataset = NewDirectory("data");
  WriteTinyDataset(dataset, {.num_instances = 8,
                             .sequence_length = sequence_length,
                             .vocab_size = (*Tokenizer::Load(tokenizer))->vocab_size()});
  fs::copy_file(tokenizer, dataset / "tokenizer.model", fs::copy_options::overwrite_existing);
  SealDataset(dataset);
  return dataset;
}

RunDirectory NewTextRun(const fs::path& dataset, int num_experts, v1::Router router,
                        v1::TokenRouting::Gate gate) {
  v1::RunSpec spec = TinySpec(dataset, 2);
  v1::RoutingConfig* routing = spec.mutable_model()->mutable_routing();
  routing->set_num_experts(num_experts);
  routing->set_router(num_experts > 1 ? router : v1::DENSE);
  if (num_experts == 1) spec.clear_upcycling();
  if (router == v1::TOKEN_CHOICE) routing->mutable_token()->set_gate(gate);
  const auto resolved = ResolveRunSpec(spec);
  BRAID_CHECK(resolved.ok()) << resolved.status().ToString();
  const RunDirectory run(NewDirectory("run"));
  BRAID_CHECK(run.WriteSpec(*resolved).ok());
  BRAID_CHECK(TrainAlone(run, *resolved).ok());
  return run;
}

}  // namespace braid
