// Measures a complete corpus job, stage by stage.
//
//   braid-bench-pipeline --documents 1000000 --corpus corpus.jsonl --json pipeline.json
//   braid-bench-pipeline --documents 100000 --spm-encode
//
// Uses the first documents of the given files, or text of this machine, and runs all stages in an
// empty home. With --spm-encode, ingest and tokenize are run again with the trained model and
// compared with spm_encode processes, one per thread, on the same text.
#include <sys/resource.h>
#include <sys/wait.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/blas_core.h"
#include "pipeline/corpus/corpus_spec.h"
#include "pipeline/jobs/job_runner.h"
#include "pipeline/store/document_store.h"
#include "pipeline/store/stage_store.h"
#include "tests/bench/or_exit.h"

namespace braid {
namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

struct Settings {
  int64_t documents = 100000;
  std::vector<std::string> corpus;
  std::string home = "/tmp/braid-bench-pipeline";
  std::string json;
  std::string index = "auto";
  std::string tokenizer;
  std::string near_duplicates = "graph";
  int k = 20;
  int threads = 2;
  int dimension = 0;
  bool keep = false;
  bool spm_encode = false;
};

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

double PeakResidentMegabytes() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) * 1024 / 1e6;
}

// Writes the first lines of the corpus into one file.
absl::StatusOr<fs::path> CutCorpus(const Settings& s) {
  std::vector<std::string> paths = s.corpus;
  if (paths.empty()) {
    paths = {(fs::path(s.home) / "machine.jsonl").string()};
    const std::string gather = absl::StrCat("'" BRAID_PYTHON "' '" BRAID_TESTS_DIR
                                            "/../deploy/gather_text.py' --split-bytes 1500",
                                            " --bytes ", s.documents * 1200, " '", paths[0], "'");
    if (std::system(gather.c_str()) != 0) return absl::UnavailableError("failed: " + gather);
  }
  const fs::path cut = fs::path(s.home) / "corpus.jsonl";
  std::ofstream out(cut, std::ios::binary);
  int64_t count = 0;
  for (const std::string& path : paths) {
    std::ifstream in(path, std::ios::binary);
    if (!in.good()) return absl::NotFoundError(path + ": cannot be read; check --corpus");
    for (std::string line; count < s.documents && std::getline(in, line); ++count) {
      out << line << '\n';
    }
  }
  out.close();
  if (!out.good())
    return absl::UnavailableError(cut.string() + ": cannot be written; check --home");
  if (count == s.documents) return cut;
  return absl::InvalidArgumentError(absl::StrCat(
      s.corpus.empty() ? "text of this machine" : "--corpus", ": got ", count,
      " documents, expected ", s.documents, "; lower --documents or add files with --corpus"));
}

v1::CorpusSpec Spec(const Settings& s, const fs::path& corpus) {
  v1::CorpusSpec spec;
  spec.add_paths(corpus.string());
  spec.set_num_threads(s.threads);
  spec.set_order(v1::SIMILARITY);
  spec.mutable_neighbors()->set_index(s.index);
  spec.mutable_neighbors()->set_k(s.k);
  spec.mutable_tokenizer()->set_model_path(s.tokenizer);
  spec.mutable_deduplicate()->set_near_duplicates(s.near_duplicates);
  if (s.dimension > 0) spec.mutable_embedder()->set_dimension(s.dimension);
  return OrExit(ResolveCorpusSpec(spec));
}

// Runs a job up to and including `last_stage` ("": all stages). Returns the seconds of each stage.
nlohmann::json RunStages(const v1::CorpusSpec& spec, StageStore* store,
                         const std::string& last_stage, v1::JobResult* result) {
  nlohmann::json seconds;
  bool stop = false;
  JobHooks hooks;
  hooks.report = [&](const v1::StageProgress& progress) {
    if (!progress.complete()) return;
    seconds[progress.stage()] = progress.seconds();
    std::cerr << progress.stage() << ' ' << progress.seconds() << " s, resident "
              << PeakResidentMegabytes() << " MB at most\n";
    stop = progress.stage() == last_stage;
  };
  hooks.stop = [&] { return stop; };
  const auto finished = RunJob(spec, store, hooks);
  if (!stop) OrExit(finished.status());
  if (finished.ok() && result != nullptr) *result = *finished;
  return seconds;
}

fs::path StageDirectory(const fs::path& store, const std::string& stage) {
  for (const auto& entry : fs::directory_iterator(store)) {
    if (entry.path().filename().string().starts_with(stage + "-")) return entry.path();
  }
  OrExit(absl::NotFoundError(store.string() + ": no output of stage " + stage));
  return {};
}

// Writes the texts into one file per thread, of about equal length.
void WriteTexts(const Settings& s, const fs::path& store) {
  const DocumentStore documents = OrExit(DocumentStore::Open(StageDirectory(store, "ingest")));
  for (int t = 0; t < s.threads; ++t) {
    std::ofstream out(fs::path(s.home) / ("text-" + std::to_string(t)), std::ios::binary);
    for (int64_t i = t; i < documents.size(); i += s.threads) out << documents.text(i) << '\n';
  }
}

double TimeSpmEncode(const Settings& s, const fs::path& model) {
  std::string command, waits = "true";
  for (int t = 0; t < s.threads; ++t) {
    const std::string number = std::to_string(t);
    command += "spm_encode --model='" + model.string() + "' --output_format=id < '" + s.home +
               "/text-" + number + "' > /dev/null & p" + number + "=$!; ";
    // Without a process, wait succeeds whatever these return.
    waits += " && wait $p" + number;
  }
  const SteadyClock::time_point start = SteadyClock::now();
  const int rc = std::system((command + waits).c_str());
  if (!WIFEXITED(rc) || WEXITSTATUS(rc) != 0) {
    OrExit(absl::NotFoundError("spm_encode failed; install the package sentencepiece"));
  }
  return SecondsSince(start);
}

// Runs ingest and tokenize with an existing model in a separate home.
void CompareWithSpmEncode(const Settings& s, v1::CorpusSpec spec, nlohmann::json* report) {
  const fs::path store = fs::path(s.home) / "store", again = fs::path(s.home) / "again";
  const fs::path model = StageDirectory(store, "tokenize") / "tokenizer.model";
  WriteTexts(s, store);
  spec.mutable_tokenizer()->set_model_path(model.string());
  StageStore empty(again);
  const nlohmann::json seconds = RunStages(spec, &empty, "tokenize", nullptr);
  const double ours = seconds["ingest"].get<double>() + seconds["tokenize"].get<double>();
  const double bare = TimeSpmEncode(s, model);
  (*report)["ingest_and_tokenize_seconds"] = ours;
  (*report)["spm_encode_seconds"] = bare;
  (*report)["ingest_and_tokenize_over_spm_encode"] = bare / ours;
}

void Describe(const v1::JobResult& result, nlohmann::json* report) {
  (*report)["num_documents"] = result.num_documents();
  (*report)["num_heldout"] = result.num_heldout();
  (*report)["num_exact_duplicates"] = result.num_exact_duplicates();
  (*report)["num_near_duplicates"] = result.num_near_duplicates();
  (*report)["num_heldout_overlaps"] = result.num_heldout_overlaps();
  (*report)["num_heldout_contained"] = result.num_heldout_contained();
  (*report)["num_heldout_mostly_shared"] = result.num_heldout_mostly_shared();
  (*report)["heldout_shared_runs"] = result.heldout_shared_runs();
  (*report)["num_instances"] = result.num_instances();
  (*report)["num_tokens"] = result.num_tokens();
  (*report)["recall_at_k"] = result.recall_at_k();
  (*report)["adjacent_cosine"] = result.adjacent_cosine();
  (*report)["random_adjacent_cosine"] = result.random_adjacent_cosine();
}

int Run(const Settings& s) {
  std::error_code error;
  fs::remove_all(s.home, error);
  if (!error) fs::create_directories(s.home, error);
  if (error) OrExit(absl::UnavailableError(s.home + ": " + error.message() + "; check --home"));
  const fs::path corpus = OrExit(CutCorpus(s));
  const v1::CorpusSpec spec = Spec(s, corpus);
  StageStore store(fs::path(s.home) / "store");
  v1::JobResult result;
  const SteadyClock::time_point start = SteadyClock::now();
  const nlohmann::json seconds = RunStages(spec, &store, "", &result);
  nlohmann::json report = {{"documents", s.documents},
                           {"corpus_mb", static_cast<double>(fs::file_size(corpus)) / 1e6},
                           {"blas", BlasCoreName()},
                           {"threads", s.threads},
                           {"seconds", SecondsSince(start)},
                           {"stage_seconds", seconds},
                           {"peak_resident_mb", PeakResidentMegabytes()}};
  Describe(result, &report);
  if (s.spm_encode) CompareWithSpmEncode(s, spec, &report);
  std::cout << report.dump(2) << '\n';
  if (!s.json.empty()) std::ofstream(s.json) << report.dump(2) << '\n';
  if (!s.keep) fs::remove_all(s.home);
  return 0;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  braid::Settings s;
  CLI::App app("Measure the stages of a corpus job from text to packed instances");
  app.add_option("--documents", s.documents, "Number of documents")
      ->check(CLI::Range(int64_t{1}, int64_t{1} << 32))
      ->capture_default_str();
  app.add_option("--corpus", s.corpus, "JSON Lines files (default: text of this machine)");
  app.add_option("--home", s.home, "Home directory, which is emptied first")->capture_default_str();
  app.add_option("--json", s.json, "File for the report");
  app.add_option("--index", s.index, "FAISS index string")->capture_default_str();
  app.add_option("--k", s.k, "Neighbors per document")->capture_default_str();
  app.add_option("--near-duplicates", s.near_duplicates, "graph or minhash")->capture_default_str();
  app.add_option("--dimension", s.dimension, "Dimension of the hashing embedder; 0: the default");
  app.add_option("--tokenizer", s.tokenizer, "SentencePiece model (default: train one)");
  app.add_option("--threads", s.threads)->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_flag("--keep", s.keep, "Keep the home directory");
  app.add_flag("--spm-encode", s.spm_encode, "Compare with spm_encode");
  CLI11_PARSE(app, argc, argv);
  return braid::Run(s);
}
