// braidd: any subset of the services in one process.
#include <signal.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "cli/arguments.h"
#include "cli/blas_core.h"
#include "cli/executable_path.h"
#include "cli/grpc_host.h"
#include "cli/prometheus_exporter.h"
#include "cli/session.h"

namespace {

struct Options {
  std::string services = "pipeline,training,analysis";
  braid::HostOptions host;
  std::string metrics;  // HOST:PORT; empty: none
};

void AddQuotas(CLI::App& app, braid::Quotas& quotas) {
  const auto add = [&app](const char* name, int64_t& value, const char* what) {
    app.add_option(name, value, std::string(what) + " that one principal may have; 0: no limit")
        ->check(CLI::NonNegativeNumber)
        ->capture_default_str();
  };
  add("--quota-jobs", quotas.jobs, "Queued and running jobs");
  add("--quota-runs", quotas.runs, "Runs that have not ended");
  add("--quota-ranks", quotas.ranks, "Ranks of such runs");
  add("--quota-watches", quotas.watches, "Open watches of jobs, and of runs,");
}

void AddOptions(CLI::App& app, Options& options) {
  options.host.home = braid::DefaultHome();
  options.host.listen = "127.0.0.1:7077";
  app.add_option("--listen", options.host.listen, "HOST:PORT to serve; port 0 picks a free one")
      ->capture_default_str();
  app.add_option("--home", options.host.home, "Directory of all state")->capture_default_str();
  app.add_option("--services", options.services,
                 "Comma-separated: pipeline,training,analysis,embedding,neighbors")
      ->capture_default_str();
  app.add_option("--embedder", options.host.embedder,
                 "Of the embedding service: hashing, or contriever:DIRECTORY with a BERT encoder")
      ->capture_default_str();
  app.add_option("--metrics", options.metrics,
                 "HOST:PORT to serve /metrics for Prometheus; port 0 picks a free one (default: "
                 "not served)");
  app.add_option("--tls-certificate", options.host.tls.certificate, "PEM certificate chain");
  app.add_option("--tls-key", options.host.tls.key, "PEM private key");
  app.add_option("--tls-ca", options.host.tls.ca, "PEM certificates that clients must chain to");
  app.add_option("--mpirun", options.host.mpirun, "Program that starts the ranks of a run")
      ->capture_default_str();
  app.add_option("--remote-agent", options.host.remote_agent,
                 "Program that starts a command on another host, as AGENT HOST COMMAND... (ssh)");
  app.add_flag("--insecure", options.host.insecure,
               "Serve beyond loopback without TLS, /metrics too");
  AddQuotas(app, options.host.quotas);
  app.footer(
      "Example:\n  braidd --listen 127.0.0.1:7077 --home /data/braid\n"
      "  braid --server 127.0.0.1:7077 submit corpus.jsonl --wait\n"
      "  braidd --metrics 127.0.0.1:9464");
}

std::string HostOf(const std::string& address) { return address.substr(0, address.rfind(':')); }

absl::StatusOr<std::unique_ptr<braid::MetricsExporter>> ServeMetrics(const Options& options,
                                                                     braid::ServiceHost& host) {
  if (options.metrics.empty()) return nullptr;
  auto exporter = braid::MetricsExporter::Start(options.metrics, options.host.insecure,
                                                host.InProcessChannel());
  if (exporter.ok()) {
    std::cout << "metrics at http://" << HostOf(options.metrics) << ":" << (*exporter)->port()
              << "/metrics" << std::endl;
  }
  return exporter;
}

absl::Status Serve(Options& options) {
  // Blocked before any thread starts, so that only sigwait below receives them.
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);

  auto services = braid::ParseServiceNames(options.services);
  if (!services.ok()) return services.status();
  options.host.services = *services;
  auto host = braid::ServiceHost::Start(options.host);
  if (!host.ok()) return host.status();
  std::cout << "braidd serves " << options.services << " at " << HostOf(options.host.listen) << ":"
            << (*host)->port() << ", state in " << options.host.home.string() << std::endl;
  auto metrics = ServeMetrics(options, **host);
  if (!metrics.ok()) return metrics.status();

  int received = 0;
  sigwait(&signals, &received);
  std::cout << "braidd: " << strsignal(received) << ", shutting down" << std::endl;
  metrics->reset();  // it asks the services
  (*host)->Shutdown(std::chrono::seconds(5));
  return absl::OkStatus();
}

}  // namespace

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  // A file size limit and a reader of our output that is gone fail the write, not the process.
  signal(SIGXFSZ, SIG_IGN);
  signal(SIGPIPE, SIG_IGN);
  CLI::App app{"braidd: serves corpus jobs, training runs and analysis over gRPC"};
  Options options;
  AddOptions(app, options);
  if (const auto end = braid::ParseArguments(app, "braidd", argc, argv)) return *end;
  const absl::Status status = Serve(options);
  if (!status.ok()) std::cerr << "braidd: " << status.message() << std::endl;
  return braid::ExitCodeOf(status);
}
