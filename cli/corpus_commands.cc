// submit, jobs, cancel, corpus
#include <unistd.h>

#include <filesystem>
#include <iostream>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/follow.h"
#include "client/terminal/tables.h"
#include "proto/config_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct SubmitOptions {
  std::vector<std::string> paths;
  std::string name, order, text_field, domain_field, tokenizer, request_id, embedder,
      embedder_model;
  std::vector<std::string> embedding_servers, neighbor_servers;
  int32_t vocab_size = 0, sequence_length = 0, domain_clusters = 0;
  int64_t split_bytes = 0;
  uint64_t seed = 0;
  bool wait = false, strict = false;
  ConfigOptions config;
};

absl::StatusOr<v1::CorpusSpec> SpecFrom(const SubmitOptions& options) {
  v1::CorpusSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  // The services run elsewhere or later: only absolute paths keep their meaning.
  for (const std::string& path : options.paths) {
    spec.add_paths(std::filesystem::absolute(path).lexically_normal().string());
  }
  if (!options.name.empty()) spec.set_name(options.name);
  if (!options.order.empty()) RETURN_IF_ERROR(SetField(&spec, "order=" + options.order));
  if (!options.text_field.empty()) spec.mutable_ingest()->set_text_field(options.text_field);
  if (!options.domain_field.empty()) spec.mutable_ingest()->set_domain_field(options.domain_field);
  if (options.split_bytes > 0) spec.mutable_ingest()->set_split_bytes(options.split_bytes);
  if (options.strict) spec.mutable_ingest()->set_strict(true);
  if (!options.tokenizer.empty()) {
    spec.mutable_tokenizer()->set_model_path(
        std::filesystem::absolute(options.tokenizer).lexically_normal().string());
  }
  if (options.vocab_size > 0) spec.mutable_tokenizer()->set_vocab_size(options.vocab_size);
  if (!options.embedder.empty()) spec.mutable_embedder()->set_kind(options.embedder);
  if (!options.embedder_model.empty()) {
    spec.mutable_embedder()->set_model_dir(
        std::filesystem::absolute(options.embedder_model).lexically_normal().string());
  }
  if (options.sequence_length > 0) {
    spec.mutable_pack()->set_sequence_length(options.sequence_length);
  }
  if (options.domain_clusters > 0) {
    spec.mutable_pack()->set_domain_clusters(options.domain_clusters);
  }
  if (options.seed > 0) spec.set_seed(options.seed);
  if (!options.embedding_servers.empty()) spec.mutable_embedder()->set_kind("remote");
  for (const std::string& address : options.embedding_servers) {
    spec.mutable_embedder()->add_addresses(address);
  }
  for (const std::string& address : options.neighbor_servers) {
    spec.mutable_neighbors()->add_addresses(address);
  }
  return spec;
}

absl::Status WaitForJob(Session& session, PipelineClient& client, const std::string& id) {
  CatchInterrupts();
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(const v1::Job job, FollowJob(client, id, board));
  if (session.json) std::cout << ToPrettyJson(job) << std::endl;
  RETURN_IF_ERROR(JobOutcome(job));
  if (!session.json) PrintJob(job, std::cout);
  return absl::OkStatus();
}

absl::Status Submit(Session& session, const SubmitOptions& options) {
  v1::SubmitCorpusRequest request;
  ASSIGN_OR_RETURN(*request.mutable_spec(), SpecFrom(options));
  request.set_request_id(options.request_id.empty() ? NewRequestId() : options.request_id);
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline(/*run_jobs=*/true));
  ASSIGN_OR_RETURN(const v1::Job job, client.SubmitCorpus(request));
  if (options.wait || session.embedded()) {
    if (!session.json) std::cerr << job.id() << "  " << job.spec().name() << std::endl;
    return WaitForJob(session, client, job.id());
  }
  std::cout << (session.json ? ToPrettyJson(job) : job.id()) << std::endl;
  return absl::OkStatus();
}

absl::Status ListJobs(Session& session) {
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const v1::ListJobsResponse response, client.ListJobs());
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    PrintJobs(response, std::cout);
  }
  return absl::OkStatus();
}

absl::Status CancelJob(Session& session, const std::string& id) {
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const v1::Job job, client.CancelJob(id));
  std::cout << (session.json ? ToPrettyJson(job) : id + " is being cancelled") << std::endl;
  return absl::OkStatus();
}

void AddSubmit(Program& program) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = program.app.add_subcommand("submit", "Turn a corpus into training instances");
  command->add_option("paths", options->paths,
                      "Files (.jsonl, .jsonl.gz, .jsonl.zst, .txt) or directories of text");
  command->add_option("--name", options->name, "Name for people");
  command->add_option("--order", options->order, "SIMILARITY (default), RANDOM or SOURCE");
  command->add_option("--text-field", options->text_field, "JSON field with the text");
  command->add_option("--domain-field", options->domain_field,
                      "JSON field with the domain (domain)");
  command
      ->add_option("--split-bytes", options->split_bytes,
                   "Cut longer documents at paragraph or line boundaries")
      ->check(PositiveInt64());
  command->add_flag("--strict", options->strict,
                    "Fail on the first bad record instead of leaving it out");
  command->add_option("--tokenizer", options->tokenizer, "SentencePiece model to use");
  command->add_option("--vocab-size", options->vocab_size, "Pieces of a trained tokenizer (32000)")
      ->check(PositiveInt32());
  command->add_option("--embedder", options->embedder,
                      "hashing (default), contriever or remote: what tells which documents are "
                      "alike");
  command->add_option("--embedder-model", options->embedder_model,
                      "Of contriever: a BERT encoder in Hugging Face layout (config.json, "
                      "model.safetensors, vocab.txt)");
  command->add_option("--sequence-length", options->sequence_length, "Tokens of an instance (4096)")
      ->check(PositiveInt32());
  command
      ->add_option("--domain-clusters", options->domain_clusters,
                   "Take so many clusters of similar documents for domains, instead of what the "
                   "records say")
      ->check(IntegerBetween(1, 64));
  command->add_option("--seed", options->seed, "Seed of every random choice (0)")->check(Seed());
  command
      ->add_option("--embedding-servers", options->embedding_servers,
                   "HOST:PORT,... of replicas that embed (braidd --services embedding)")
      ->delimiter(',');
  command
      ->add_option("--neighbor-servers", options->neighbor_servers,
                   "HOST:PORT,... of servers to search, a shard each (braidd --services neighbors)")
      ->delimiter(',');
  command->add_option("--request-id", options->request_id, "Makes repeating this submit harmless");
  command->add_flag("--wait", options->wait,
                    "Follow the job to its end (always so without --server)");
  options->config.AddTo(command, "CorpusSpec");
  command->footer(
      "Examples:\n"
      "  braid submit corpus.jsonl.zst --wait\n"
      "  braid submit notes/ --vocab-size 4096 --sequence-length 512 --split-bytes 600\n"
      "  braid submit unlabelled/ --domain-clusters 8 --wait\n"
      "  braid submit corpus.jsonl --set neighbors.k=10 --set order=RANDOM\n"
      "  braid submit corpus.jsonl --embedder contriever --embedder-model models/contriever\n"
      "  braid submit corpus.jsonl --neighbor-servers 10.0.0.1:7077,10.0.0.2:7077");
  command->callback([&program, options] {
    program.action = [&program, options] { return Submit(program.session, *options); };
  });
}

}  // namespace

void AddCorpusCommands(Program& program) {
  AddSubmit(program);
  CLI::App* corpus = program.app.add_subcommand("corpus", "About corpora");
  corpus->require_subcommand(1);
  AddCorpusDescribe(program, corpus);
  CLI::App* jobs = program.app.add_subcommand("jobs", "List corpus jobs, newest first");
  jobs->callback([&program] { program.action = [&program] { return ListJobs(program.session); }; });

  auto id = std::make_shared<std::string>();
  CLI::App* cancel = program.app.add_subcommand("cancel", "Cancel a corpus job");
  cancel->add_option("id", *id, "Job id, such as job-000001")->required();
  cancel->callback([&program, id] {
    program.action = [&program, id] { return CancelJob(program.session, *id); };
  });
}

}  // namespace braid
