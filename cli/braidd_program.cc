// braidd: a server that hosts any subset of the services in one process.
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <limits>
#include <memory>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/blas_core.h"
#include "base/path_roots.h"
#include "cli/arguments.h"
#include "cli/help_formatter.h"
#include "cli/manual_page.h"
#include "cli/programs.h"
#include "client/session.h"
#include "rpc/client_token.h"
#include "rpc/executable_path.h"
#include "rpc/grpc_credentials.h"
#include "server/access/call_log.h"
#include "server/exit_limit.h"
#include "server/grpc_host.h"
#include "server/local_runs.h"
#include "server/prometheus_call_metrics.h"
#include "server/prometheus_exporter.h"
#include "server/prometheus_families.h"

namespace braid {
namespace {

// Time after --drain for jobs to stop at their next commit points and for cancelled calls to end.
constexpr std::chrono::seconds kLastPatience{20};
// Time for --stop-runs, longer than a supervisor takes to stop a run whose ranks hang.
constexpr std::chrono::seconds kStopRunsLimit{80};

struct Options {
  std::string services = "pipeline,training,analysis,generation,storage";
  HostOptions host;
  std::string metrics;  // HOST:PORT; empty: none
  std::vector<std::filesystem::path> allowed;
  std::filesystem::path log_file, services_token_file;
  std::string log_level = "info";
  int drain_seconds = 10;
  bool stop_runs = false;
  bool man = false;
};

void AddQuotas(CLI::App& app, Quotas& quotas) {
  const auto add = [&app](const char* name, int64_t& value, const char* what) {
    app.add_option(name, value, std::string(what) + " per principal; 0 means no limit")
        ->check(IntegerBetween(0, std::numeric_limits<int64_t>::max()))
        ->capture_default_str();
  };
  add("--quota-jobs", quotas.jobs, "Maximum queued and running jobs");
  add("--quota-runs", quotas.runs, "Maximum runs that have not ended");
  add("--quota-ranks", quotas.ranks, "Maximum ranks of runs that have not ended");
  add("--quota-watches", quotas.watches, "Maximum open watches of jobs and of runs, each,");
  add("--quota-descriptions", quotas.descriptions, "Maximum concurrent corpus descriptions");
  add("--quota-evaluations", quotas.evaluations,
      "Maximum concurrent evaluations, analyses, exports, imports and conversions of models");
}

void AddConnections(CLI::App& app, ConnectionLimits& limits) {
  const auto add = [&app](const char* name, int64_t& value, const char* what) {
    app.add_option(name, value, what)
        ->check(IntegerBetween(0, std::numeric_limits<int64_t>::max()))
        ->capture_default_str();
  };
  add("--max-connections", limits.total,
      "Maximum open connections; 0 derives it from the limit on open files");
  add("--max-connections-per-address", limits.per_address,
      "Maximum open connections of one client address; 0 means half of all");
}

void AddServing(CLI::App& app, Serving& serving) {
  const auto add = [&app](const char* name, int& value, int minimum, const char* what) {
    app.add_option(name, value, what)
        ->check(IntegerBetween(minimum, 1 << 20))
        ->capture_default_str();
  };
  add("--served-models", serving.models, 1, "Maximum models that generation keeps in memory");
  add("--serve-idle", serving.idle_seconds, 1,
      "Seconds without requests after which a model is unloaded");
  add("--generate-active", serving.active, 1, "Maximum texts generated concurrently");
  add("--generate-queue", serving.queue, 0, "Maximum generation requests in the queue");
  add("--generate-threads", serving.num_threads, 0, "Threads per served model; 0 means all cores");
  app.add_flag(
      "--generate-together", serving.together,
      "Batch all texts of a model into one step: higher throughput, but rounding then depends on "
      "the batch");
}

// Adds who may connect, and what clients may reach.
void AddAccess(CLI::App& app, Options& options) {
  app.add_option("--tls-certificate", options.host.tls.certificate,
                 "PEM file with the server's certificate chain");
  app.add_option("--tls-key", options.host.tls.key, "PEM file with the server's private key");
  app.add_option("--tls-ca", options.host.tls.ca,
                 "PEM file with the certificates that clients must chain to");
  app.add_option("--services-token-file", options.services_token_file,
                 "File with the token that jobs present to embedding and neighbor servers, over "
                 "TLS or on this "
                 "machine; with --tls-certificate, they present that certificate too");
  app.add_flag(
      "--insecure", options.host.insecure,
      "Serve beyond loopback without TLS, including /metrics; with TLS, serve without tokens");
  app.add_flag("--require-token", options.host.require_token,
               "Require a token (braid token create) on loopback without TLS, too");
  app.add_option(
         "--allow", options.allowed,
         "Directory that clients may read and write by path; repeatable (default: on loopback, the "
         "working directory; HOME/store and HOME/runs are always allowed)")
      ->allow_extra_args(false);
}

void AddOptions(CLI::App& app, Options& options) {
  options.host.home = DefaultHome();
  options.host.listen = "127.0.0.1:7077";
  app.add_option("--listen", options.host.listen,
                 "Address to serve, as HOST:PORT; port 0 picks a free port")
      ->capture_default_str();
  app.add_option("--home", options.host.home, "Directory of jobs, runs and all other state")
      ->check(NotEmpty("a directory"))
      ->capture_default_str();
  AddState(app, options.host.state);
  app.add_option("--services", options.services,
                 "Services to run, separated by commas: pipeline, training, analysis, generation, "
                 "storage, embedding, neighbors")
      ->capture_default_str();
  app.add_option(
         "--embedder", options.host.embedder,
         "Embedder of the embedding service: hashing, or contriever:DIRECTORY with a BERT encoder")
      ->capture_default_str();
  app.add_option("--metrics", options.metrics,
                 "Address to serve /metrics for Prometheus, as HOST:PORT; port 0 picks a free port "
                 "(default: not served)");
  AddAccess(app, options);
  app.add_option("--mpirun", options.host.mpirun, "Program that starts the ranks of a run")
      ->capture_default_str();
  app.add_option("--remote-agent", options.host.remote_agent,
                 "Program that starts a command on another host, called as AGENT HOST COMMAND... "
                 "(default: ssh)");
  app.add_option("--log-file", options.log_file,
                 "File to append the log to (default: standard error)");
  app.add_option("--log-level", options.log_level, "Minimum level of log entries")
      ->check(OneOf({"debug", "info", "warning", "error"}))
      ->capture_default_str();
  app.add_option("--drain", options.drain_seconds,
                 "Seconds that running calls may take to finish after SIGTERM")
      ->check(IntegerBetween(0, 3600))
      ->capture_default_str();
  app.add_flag(
      "--stop-runs", options.stop_runs,
      "Stop the runs of this machine on SIGTERM, each with a checkpoint, and resume them at "
      "the next start: for containers, whose processes end with braidd");
  AddConnections(app, options.host.connections);
  AddQuotas(app, options.host.quotas);
  AddServing(app, options.host.serving);
  // For packages; an empty group hides it from the help.
  app.add_flag("--man", options.man, "Print the manual page in roff and exit")->group("");
  app.footer(
      "Examples:\n"
      "  braidd --listen 127.0.0.1:7077 --home /data/braid --metrics 127.0.0.1:9464\n"
      "  braid --server 127.0.0.1:7077 submit corpus.jsonl --wait");
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

ServerFigures FiguresOf(const HostOptions& options, const ServiceHost& host) {
  std::error_code error;
  const auto space = std::filesystem::space(options.home, error);
  return {.connections = host.Connections(),
          .disk_free_bytes = error ? 0 : space.available,
          .disk_size_bytes = error ? 0 : space.capacity,
          .expiries = ListExpiries(options.home, options.tls)};
}

absl::StatusOr<std::unique_ptr<MetricsExporter>> ServeMetrics(const Options& options,
                                                              ServiceHost& host,
                                                              std::shared_ptr<CallMetrics> calls) {
  if (options.metrics.empty()) return nullptr;
  return MetricsExporter::Start(options.metrics, options.host.insecure, host.InProcessChannel(),
                                std::move(calls), [&] { return FiguresOf(options.host, host); });
}

void PrintAddresses(const Options& options, const ServiceHost& host,
                    const MetricsExporter* metrics) {
  std::cout << "braidd serves " << options.services << " at " << HostOf(options.host.listen) << ":"
            << host.port() << ", state in " << options.host.home.string() << std::endl;
  if (metrics == nullptr) return;
  std::cout << "metrics at http://" << HostOf(options.metrics) << ":" << metrics->port()
            << "/metrics" << std::endl;
}

// Returns whether `path` is `directory` or below it; true also when this cannot be determined.
bool IsWithin(const std::filesystem::path& path, const std::filesystem::path& directory) {
  std::error_code error;
  const auto outer = std::filesystem::canonical(directory, error);
  if (error) return true;
  const auto inner = std::filesystem::canonical(path, error);
  if (error) return true;
  return std::ranges::mismatch(outer, inner).in1 == outer.end();
}

// Limits the paths in requests to the output of the services and the directories that the operator
// allows.
absl::Status Confine(const Options& options) {
  std::vector<std::filesystem::path> roots = options.allowed;
  for (const char* made : {"store", "runs"}) {
    roots.push_back(options.host.home / made);
    if (absl::Status status = MakeDirectories(roots.back()); !status.ok()) return status;
  }
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  // The working directory is allowed by default, but only on loopback, and neither when it is the
  // root (as under an init system) nor within HOME, which holds the server's own state.
  if (options.allowed.empty() && IsLoopback(options.host.listen) && !error && here != "/" &&
      !IsWithin(here, options.host.home)) {
    roots.push_back(here);
  }
  auto confined = PathRoots::Create(roots, options.host.home);
  if (!confined.ok()) return confined.status();
  SetClientRoots(*std::move(confined));
  return absl::OkStatus();
}

// Exits on the second signal, without waiting for running calls.
void EndAtOnce(sigset_t signals) {
  int received = 0;
  sigwait(&signals, &received);
  _exit(128 + received);
}

// Waits for a signal to end and returns it; opens the log again at each SIGHUP.
int WaitForEnd(const sigset_t& signals, CallLog& log) {
  while (true) {
    int received = 0;
    sigwait(&signals, &received);
    if (received != SIGHUP) return received;
    const absl::Status status = log.Reopen();
    log.Write(status.ok() ? LogLevel::kInfo : LogLevel::kError,
              status.ok() ? "log opened again" : std::string(status.message()));
  }
}

// Returns the error of an option whose service is not served. Requires host.services.
absl::Status CheckOptionsAreUsed(const Options& options) {
  struct Use {
    const char* option;
    std::string got;  // empty for an option that is not set
    ServiceName service;
    const char* name;
  };
  const std::string& embedder = options.host.embedder;
  for (const Use& use :
       {Use{"--embedder", embedder == HostOptions().embedder ? "" : embedder,
            ServiceName::kEmbedding, "embedding"},
        Use{"--stop-runs", options.stop_runs ? "it" : "", ServiceName::kTraining, "training"},
        Use{"--services-token-file", options.services_token_file.string(), ServiceName::kPipeline,
            "pipeline"}}) {
    if (use.got.empty() || options.host.services.contains(use.service)) continue;
    return absl::InvalidArgumentError(absl::StrCat(use.option, ": got ", use.got, " without the ",
                                                   use.name, " service, expected ", use.name,
                                                   " among --services"));
  }
  return absl::OkStatus();
}

absl::Status Serve(Options& options) {
  // Blocked before any thread starts, so that only sigwait below receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGHUP);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  if (!options.metrics.empty()) {
    const absl::Status metrics = CheckMetricsAddress(options.metrics, options.host.insecure);
    if (!metrics.ok()) return metrics;
  }
  auto services = ParseServiceNames(options.services);
  if (!services.ok()) return services.status();
  options.host.services = *services;
  if (absl::Status used = CheckOptionsAreUsed(options); !used.ok()) return used;
  if (!options.services_token_file.empty()) {
    auto token = ReadClientToken(options.services_token_file, "");
    if (!token.ok()) return token.status();
    options.host.services_token = *std::move(token);
  }
  auto log = CallLog::Open(options.log_file, *ParseLogLevel(options.log_level));
  if (!log.ok()) return log.status();
  auto calls = std::make_shared<CallMetrics>();
  options.host.observers = {*log, calls};
  if (absl::Status confined = Confine(options); !confined.ok()) return confined;
  auto host = ServiceHost::Start(options.host);
  if (!host.ok()) return host.status();
  auto metrics = ServeMetrics(options, **host, calls);
  if (!metrics.ok()) return metrics.status();
  PrintAddresses(options, **host, metrics->get());
  std::unique_ptr<LocalRuns> runs;
  if (options.stop_runs && services->contains(ServiceName::kTraining)) {
    runs = std::make_unique<LocalRuns>(
        (*host)->InProcessChannel(), options.host.home,
        [log = *log](const std::string& what) { log->Write(LogLevel::kInfo, what); });
  }

  const int received = WaitForEnd(signals, **log);
  sigdelset(&signals, SIGHUP);
  std::cout << "braidd: " << strsignal(received) << ", shutting down" << std::endl;
  (*log)->Write(LogLevel::kInfo, absl::StrCat("draining after ", strsignal(received)));
  std::thread(EndAtOnce, signals).detach();
  if (runs != nullptr) {
    // A run that began now would be neither stopped with a checkpoint nor resumed later.
    (*host)->RefuseCalls();
    runs->Stop(kStopRunsLimit);
  }
  runs.reset();
  const std::chrono::seconds drain(options.drain_seconds);
  // Bounds the wait for handlers that ignore cancellation.
  const ExitLimit limit(drain + kLastPatience, [&log = **log] {
    log.Write(LogLevel::kError,
              "shutdown timed out; exiting now, and jobs resume from their last commit points");
  });
  metrics->reset();  // the exporter calls the services
  (*host)->Shutdown(drain);
  (*log)->Write(LogLevel::kInfo, "stopped");
  return absl::OkStatus();
}

}  // namespace

int BraiddMain(int argc, char** argv, const std::string& version) {
  ReexecForBlas(argv);
  // A write beyond the file size limit or to a closed pipe then fails with an error instead of
  // killing the process.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  CLI::App app{"Serve corpus jobs, training runs, analysis and generation over gRPC.", "braidd"};
  app.formatter(std::make_shared<HelpFormatter>());
  app.set_help_flag("-h,--help", "Print this help and exit");
  app.set_version_flag("--version", "braidd " + version, "Print the version and exit");
  Options options;
  AddOptions(app, options);
  if (const auto end = ParseArguments(app, "braidd", argc, argv)) {
    return CheckedOutput("braidd", *end);
  }
  if (options.man) {
    std::cout << ManualPage(app, {}).value() << std::flush;
    return 0;
  }
  const absl::Status status = Serve(options);
  if (!status.ok()) std::cerr << "braidd: " << status.message() << std::endl;
  return ExitCodeOf(status);
}

}  // namespace braid
