// dataset.json and a checkpoint's state.json with model.textproto, in three parts.
#include "base/check.h"
#include "formats/manifest.h"
#include "formats/packed_dataset.h"
#include "runs/checkpoint.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {

std::vector<std::string> FUZZ_SEEDS(dataset_info)() {
  return {JoinParts(
      {R"({"sequence_length": 128, "vocab_size": 400, "eos_id": 2, "num_instances": 9,
           "num_tokens": 1161, "num_documents": 8, "num_heldout_documents": 1, "seed": 0, "domains": ["code", "law"], "order": "SIMILARITY",
           "name": "tiny", "key": "0123456789abcdef0123456789abcdef"})",
       R"({"step": 480, "num_tokens": 99, "upcycled": true, "world_size": 2, "dataset_key": "k"})",
       "d_model: 64 num_layers: 2 vocab_size: 400"})};
}

}  // namespace braid

int FUZZ_INPUT(dataset_info)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  const std::vector<std::string> parts = SplitParts(AsText(data, size), 3);
  directory.Put("dataset.json", parts[0]);
  directory.Put(kStateFile, parts[1]);
  directory.Put(kConfigFile, parts[2]);
  Manifest manifest{.kind = kCheckpointKind};
  for (const char* name : {kStateFile, kConfigFile}) {
    manifest.files.push_back(MakeManifestEntry(*SummarizeFile(directory.path() / name), 0));
  }
  BRAID_CHECK(manifest.Save(directory.path()).ok());
  ReadDatasetInfo(directory.path()).status().IgnoreError();
  ReadCheckpointState(directory.path()).status().IgnoreError();
  return 0;
}
