// The command "doctor": finds problems of this machine or a cluster before a run does.
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <system_error>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/launch_options.h"
#include "cli/machine_checks.h"
#include "cli/need_checks.h"
#include "cli/pipeline_bench.h"
#include "cli/rank_checks.h"
#include "rpc/interrupt.h"
#include "runs/launch_config.h"

namespace braid {
namespace {

struct DoctorOptions {
  int32_t ranks = 0, threads = 0, ranks_per_host = 0;
  std::string model, shared, hosts, interface;
  std::vector<std::string> corpus;
  bool bench = false;
  int64_t documents = 1'000'000;
  int32_t dimension = 256;
};

constexpr int kCheckpointsKept = 2;
constexpr int kRanks = 2;

// Returns the spec of a run that is launched with these options.
absl::StatusOr<v1::RunSpec> SpecOf(const DoctorOptions& options) {
  v1::RunSpec spec;
  std::vector<v1::HostSlots> hosts;
  if (!options.hosts.empty()) {
    ASSIGN_OR_RETURN(hosts, ParseHostList(options.hosts));
  }
  spec.mutable_launch()->mutable_hosts()->Assign(hosts.begin(), hosts.end());
  spec.mutable_launch()->set_network_interface(options.interface);
  if (options.ranks > 0 || hosts.empty()) {
    spec.set_world_size(options.ranks > 0 ? options.ranks : kRanks);
  }
  RETURN_IF_ERROR(ResolveLaunch(&spec));
  const int cores = static_cast<int>(std::thread::hardware_concurrency());
  spec.set_threads_per_rank(options.threads > 0 ? options.threads
                                                : std::max(1, cores / RanksPerMachine(spec)));
  return spec;
}

void AddRankFindings(const LauncherPrograms& programs, const v1::RunSpec& spec,
                     const std::filesystem::path& shared, Findings& findings) {
  const auto ranks = CollectRankFindings(programs, spec, shared);
  if (!ranks.ok()) {
    findings.push_back({Grade::kBad, "ranks", std::string(ranks.status().message()),
                        "a run would fail in the same way"});
    return;
  }
  const Findings judged = JudgeRanks(*ranks, spec.threads_per_rank());
  findings.insert(findings.end(), judged.begin(), judged.end());
}

absl::Status AddNeedFindings(Session& session, const DoctorOptions& options, int world_size,
                             Findings& findings) {
  const Resources free = FreeResources(session.options.home);
  if (!options.model.empty()) {
    v1::DescribeModelRequest request;
    request.mutable_model()->set_preset(options.model);
    request.mutable_forecast()->set_world_size(world_size);
    ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
    ASSIGN_OR_RETURN(const v1::DescribeModelResponse model, client.DescribeModel(request));
    const int here = options.ranks_per_host > 0 ? options.ranks_per_host : world_size;
    const Findings judged = JudgeModelNeed(model, here, kCheckpointsKept, free);
    findings.insert(findings.end(), judged.begin(), judged.end());
  }
  if (!options.corpus.empty()) {
    ASSIGN_OR_RETURN(const int64_t bytes, CorpusBytes(options.corpus));
    findings.push_back(JudgeCorpusNeed(bytes, free));
  }
  return absl::OkStatus();
}

// Measures the pipeline on this machine and forecasts a corpus with docs/scale.md.
absl::Status AddBenchFindings(const DoctorOptions& options, Findings& findings) {
  std::cerr << "measuring the stages of corpus jobs ..." << std::endl;
  const absl::StatusOr<PipelineRates> measured =
      MeasurePipeline({.dimension = options.dimension, .num_threads = options.threads});
  if (Interrupted()) return absl::CancelledError("interrupted");
  ASSIGN_OR_RETURN(const PipelineRates rates, measured);
  const Findings described =
      DescribeRates(rates, {.documents = static_cast<double>(options.documents),
                            .dimension = static_cast<double>(options.dimension)});
  findings.insert(findings.end(), described.begin(), described.end());
  return absl::OkStatus();
}

absl::Status Doctor(Session& session, const DoctorOptions& options) {
  ASSIGN_OR_RETURN(const v1::RunSpec spec, SpecOf(options));
  const std::filesystem::path home = session.options.home;
  const std::filesystem::path shared = std::filesystem::absolute(
      options.shared.empty() ? home : std::filesystem::path(options.shared));
  std::error_code error;
  // The check would create it, and pass, where a path is mistyped or its file system not mounted.
  if (!options.shared.empty() && !std::filesystem::is_directory(shared, error)) {
    return absl::NotFoundError(absl::StrCat("--shared: directory not found: ", shared.string(),
                                            "; create or mount a directory that all ranks share"));
  }
  // First, since what was asked may not exist, and the other checks take minutes.
  Findings needs;
  RETURN_IF_ERROR(AddNeedFindings(session, options, spec.world_size(), needs));
  Findings findings = CheckMachine(home, session.options.state, session.options.mpirun);
  const Findings expiries = CheckExpiries(home, session.options.tls);
  findings.insert(findings.end(), expiries.begin(), expiries.end());
  CatchInterrupts();
  AddRankFindings(ProgramsOf(session.options), spec, shared, findings);
  if (Interrupted()) return absl::CancelledError("interrupted");
  findings.insert(findings.end(), needs.begin(), needs.end());
  if (options.bench) RETURN_IF_ERROR(AddBenchFindings(options, findings));
  if (session.json) {
    std::cout << FindingsToJson(findings) << std::endl;
  } else {
    PrintFindings(findings, std::cout);
  }
  const bool bad = std::any_of(findings.begin(), findings.end(), [](const Finding& finding) {
    return finding.verdict == Grade::kBad;
  });
  return bad ? absl::FailedPreconditionError("not ready: fix the checks marked bad above")
             : absl::OkStatus();
}

}  // namespace

void AddDoctorCommand(CommandLine& program) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = program.app.add_subcommand(
      "doctor", "Check that this machine or a cluster is ready for training");
  command
      ->add_option("--ranks", options->ranks,
                   "Number of ranks to start and check (default: 2, or the hosts' slots)")
      ->check(PositiveInt32());
  command->add_option("--hosts", options->hosts, "Hosts to start the ranks on, as HOST:RANKS,...");
  command->add_option("--interface", options->interface, "Network interface between the hosts");
  command->add_option("--threads", options->threads, "Threads per rank (default: cores / ranks)")
      ->check(PositiveInt32());
  CLI::Option* const ranks_per_host =
      command
          ->add_option("--ranks-per-host", options->ranks_per_host,
                       "With --model: ranks that share this machine's memory (default: all)")
          ->check(PositiveInt32());
  command->add_option("--shared", options->shared,
                      "Directory that all ranks must see (default: --home)");
  ranks_per_host->needs(command->add_option(
      "--model", options->model,
      "Check that training this named model fits into memory and its checkpoints on disk"));
  command->add_option("--corpus", options->corpus,
                      "Check that a corpus job on these files fits on disk");
  CLI::Option* const bench =
      command->add_flag("--bench", options->bench,
                        "Measure the stages of corpus jobs here, and forecast them (about 12 s)");
  command
      ->add_option("--documents", options->documents,
                   "With --bench: documents of 1,200 bytes to forecast")
      ->check(PositiveInt64())
      ->capture_default_str()
      ->needs(bench);
  command->add_option("--dimension", options->dimension, "With --bench: dimension of the vectors")
      ->check(IntegerBetween(1, 4096))
      ->capture_default_str()
      ->needs(bench);
  command->footer(
      "Examples:\n"
      "  braid doctor\n"
      "  braid doctor --model 0.3B/8E --ranks 8 --ranks-per-host 2\n"
      "  braid doctor --hosts node1:2,node2:2 --shared /mnt/braid\n"
      "  braid doctor --corpus corpus.jsonl.zst --json\n"
      "  braid doctor --bench --documents 5000000");
  command->callback([&program, options] {
    program.action = [&program, options] { return Doctor(program.session, *options); };
  });
}

}  // namespace braid
