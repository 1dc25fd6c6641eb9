#include "tests/server/retention/stored_home.h"

#include <algorithm>
#include <chrono>
#include <map>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "control/run_store.h"
#include "formats/manifest.h"
#include "pipeline/jobs/job_store.h"
#include "runs/checkpoint.h"
#include "runs/checkpoint_directory.h"
#include "runs/run_directory.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

constexpr size_t kOutputBytes = 20000;

std::string StageOf(const std::string& output) {
  static const auto* const names = new std::map<char, std::string>{
      {'i', "ingest"}, {'t', "tokenize"}, {'e', "embed"}, {'p', "pack"}};
  return names->at(output[0]);
}

void WriteOutput(const fs::path& directory) {
  fs::create_directories(directory / "provenance");
  PutFile(directory / "data.bin", std::string(kOutputBytes, 'x'));
  PutFile(directory / "provenance/spans.npy", "spans");
  PutFile(directory / "dataset.json",
          R"({"sequence_length":64,"vocab_size":512,"eos_id":2,"num_instances":40,)"
          R"("num_tokens":2600,"domains":["code"],"order":"SIMILARITY","name":"toy","key":"k",)"
          R"("num_documents":9,"num_heldout_documents":1,"seed":0})");
  PutFile(directory / "tokenizer.model", "tokens");
}

// The weights of a checkpoint do not matter to what verifies and deletes it.
void WriteCheckpoint(const fs::path& checkpoint, int64_t best_step) {
  CheckpointState state;
  state.step = 10;
  state.dataset_key = "k";
  state.validation.best_step = best_step;
  state.model.set_d_model(8);
  const std::map<std::string, std::string> texts = {{kStateFile, StateText(state)},
                                                    {kConfigFile, ConfigText(state.model)}};
  fs::create_directories(checkpoint);
  Manifest manifest = {.kind = kCheckpointKind, .settings = {{"world_size", "1"}}};
  for (const std::string& name :
       {ModelFileName(0, 1), OptimizerFileName(0, 1), std::string(kStateFile),
        std::string(kConfigFile), std::string(kTokenizerFile)}) {
    const auto text = texts.find(name);
    std::string bytes = text == texts.end() ? "w" : text->second;
    bytes.resize(kOutputBytes, text == texts.end() ? 'w' : '\n');
    PutFile(checkpoint / name, bytes);
    manifest.files.push_back(MakeManifestEntry(SummarizeFile(checkpoint / name).value(), 1));
  }
  BRAID_CHECK(manifest.Save(checkpoint).ok());
}

}  // namespace

fs::path StoredHome::Output(const std::string& name) const {
  return home_ / absl::StrCat("store/", StageOf(name), "-", std::string(16, name[1]));
}

std::string StoredHome::AddPrepared(const std::string& name, double days) {
  const std::string directory = "supervised/" + name;
  WriteOutput(home_ / directory);
  const auto age = std::chrono::duration_cast<fs::file_time_type::duration>(
      std::chrono::duration<double>(days * 86400));
  fs::last_write_time(home_ / directory, fs::file_time_type::clock::now() - age);
  PutFile(home_ / "supervised/lock", "");
  return directory;
}

// Starts a queued job that writes these outputs. Returns the last of them.
std::string StoredHome::WriteOutputs(const std::string& id, const std::vector<std::string>& outputs,
                                     JobStore* jobs) const {
  BRAID_CHECK(jobs->ClaimNext().value()->id() == id);
  std::string last;
  for (const std::string& output : outputs) {
    v1::StageProgress progress;
    progress.set_stage(StageOf(output));
    progress.set_key(std::string(32, output[1]));
    BRAID_CHECK(jobs->RecordProgress(id, progress).ok());
    WriteOutput(Output(output));
    last = Output(output).string();
  }
  return last;
}

void StoredHome::RunAgain(const std::string& id, const std::vector<std::string>& outputs) {
  const auto jobs = JobStore::Open(path(), [] { return 1000; }).value();
  BRAID_CHECK(jobs->Resume(id).ok());
  WriteOutputs(id, outputs, jobs.get());
  BRAID_CHECK(jobs->Fail(id, "failed").ok());
}

std::string StoredHome::AddJob(const JobOptions& options) {
  const auto jobs = JobStore::Open(path(), [&] { return options.finished; }).value();
  static int count = 0;
  const std::string id = jobs->Submit(options.spec, absl::StrCat("request-", ++count),
                                      {.principal = options.principal})
                             ->id();
  if (options.state == v1::JOB_QUEUED) return id;
  v1::JobResult result;
  result.set_dataset_dir(WriteOutputs(id, options.outputs, jobs.get()));
  if (options.state == v1::JOB_SUCCEEDED) BRAID_CHECK(jobs->Succeed(id, result).ok());
  if (options.state == v1::JOB_FAILED) BRAID_CHECK(jobs->Fail(id, "failed").ok());
  return id;
}

std::string StoredHome::AddRun(const RunOptions& options) {
  v1::RunSpec spec;
  spec.set_name("toy");
  spec.set_dataset_dir(options.dataset.string());
  spec.set_init_from(options.init_from);
  spec.mutable_checkpoint()->set_keep_every_steps(options.keep_every_steps);
  if (options.regular_steps > 0) {
    spec.set_num_steps(100);
    spec.mutable_checkpoint()->set_every_steps(options.regular_steps);
    spec.mutable_spikes()->set_policy(v1::ROLLBACK);
  }
  const auto runs = RunStore::Open(path()).value();
  const RunRecord record = runs->Create(options.request_id, spec.SerializeAsString(),
                                        options.created, {.principal = options.principal})
                               .value();
  const RunDirectory run(record.run_dir);
  BRAID_CHECK(run.WriteSpec(spec).ok());
  for (const int64_t step : options.checkpoints) {
    WriteCheckpoint(CheckpointPath(run.checkpoints(), step), options.best_step);
  }
  if (!options.ended) return record.id;
  BRAID_CHECK(run.WriteExit({.outcome = std::string(kSucceeded), .error = "", .step = 20}).ok());
  const auto finished =
      std::chrono::file_clock::from_sys(std::chrono::sys_time<std::chrono::seconds>(
          std::chrono::seconds(static_cast<int64_t>(options.finished))));
  fs::last_write_time(run.exit(), finished);
  return record.id;
}

std::vector<std::string> StoredHome::Directories() const {
  std::vector<std::string> names;
  for (const char* const part : {"store", "runs"}) {
    if (!Has(part)) continue;
    for (const auto& entry : fs::directory_iterator(home_ / part)) {
      names.push_back(absl::StrCat(part, "/", entry.path().filename().string()));
    }
  }
  std::ranges::sort(names);
  return names;
}

std::vector<std::string> StoredHome::Ids() const {
  std::vector<std::string> ids;
  const auto jobs = JobStore::Open(path()).value()->List().value();
  for (const v1::Job& job : jobs) ids.push_back(job.id());
  const auto runs = RunStore::Open(path()).value()->List().value();
  for (const RunRecord& run : runs) ids.push_back(run.id);
  std::ranges::sort(ids);
  return ids;
}

}  // namespace braid
