// The commands "submit", "jobs", "cancel" and "corpus".
#include <unistd.h>

#include <iostream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/decontamination_paths.h"
#include "cli/field_flags.h"
#include "client/follow.h"
#include "client/terminal/tables.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct SubmitOptions {
  std::string request_id;
  bool wait = false;
  FieldFlags fields{"braid.v1.CorpusSpec"};
  ConfigOptions config;
};

absl::StatusOr<v1::CorpusSpec> SpecFrom(const SubmitOptions& options) {
  v1::CorpusSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  RETURN_IF_ERROR(options.fields.Apply(&spec));
  v1::CorpusSpec given;
  RETURN_IF_ERROR(options.fields.Apply(&given));
  if (spec.has_decontaminate()) {
    RETURN_IF_ERROR(ExpandTaskPaths(spec.mutable_decontaminate()->mutable_paths()));
  }
  if (given.embedder().addresses().empty()) return spec;
  // --embedding-servers implies the embedder that uses them.
  const std::string& kind = spec.embedder().kind();
  if (!kind.empty() && kind != "remote") {
    return absl::InvalidArgumentError(
        absl::StrCat("--embedding-servers: cannot be combined with the embedder \"", kind,
                     "\"; leave --embedder out, or set it to remote"));
  }
  spec.mutable_embedder()->set_kind("remote");
  return spec;
}

absl::Status WaitForJob(Session& session, PipelineClient& client, const std::string& id,
                        ProgressBoard& board) {
  CatchInterrupts();
  ASSIGN_OR_RETURN(const v1::Job job, FollowJob(client, id, board));
  board.Close();
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
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  ASSIGN_OR_RETURN(const v1::Job job, SubmitOnce(client, request, board));
  if (options.wait || session.embedded()) {
    if (!session.json) std::cerr << job.id() << "  " << NameText(job.spec().name()) << std::endl;
    return WaitForJob(session, client, job.id(), board);
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
  if (absl::StartsWith(id, "run-")) {
    return absl::InvalidArgumentError(
        absl::StrCat("id: got the run ", id, ", expected a job; stop a run with: braid stop ", id));
  }
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ASSIGN_OR_RETURN(const v1::Job job, client.CancelJob(id));
  const char* const outcome = job.state() == v1::JOB_CANCELLED
                                  ? ": canceled"
                                  : ": cancelling; it stops at its next commit point";
  std::cout << (session.json ? ToPrettyJson(job) : id + outcome) << std::endl;
  return absl::OkStatus();
}

void AddSubmit(CommandLine& program) {
  auto options = std::make_shared<SubmitOptions>();
  CLI::App* command = program.app.add_subcommand(
      "submit", "Submit a corpus job: turn raw text into packed training data");
  FieldFlags& fields = options->fields;
  fields.Add(command, "paths", "paths")->transform(AbsolutePathValue());
  fields.Add(command, "--name", "name");
  fields.Add(command, "--order", "order");
  fields.Add(command, "--text-field", "ingest.text_field");
  fields.Add(command, "--domain-field", "ingest.domain_field");
  fields.Add(command, "--where", "ingest.where");
  fields.Add(command, "--embedding-field", "ingest.embedding_field");
  fields.Add(command, "--split-bytes", "ingest.split_bytes");
  fields.Add(command, "--strict", "ingest.strict");
  fields.Add(command, "--tokenizer", "tokenizer.model_path")->transform(AbsolutePathValue());
  fields.Add(command, "--vocab-size", "tokenizer.vocab_size");
  fields.Add(command, "--begin-with-bos", "tokenizer.begin_with_bos");
  fields.Add(command, "--embedder", "embedder.kind");
  fields.Add(command, "--embedder-model", "embedder.model_dir")->transform(AbsolutePathValue());
  fields.Add(command, "--sequence-length", "pack.sequence_length");
  fields.Add(command, "--domain-clusters", "pack.domain_clusters")->check(IntegerBetween(0, 64));
  fields.Add(command, "--near-duplicates", "deduplicate.near_duplicates");
  fields.Add(command, "--decontaminate", "decontaminate.paths")
      ->transform(DecontaminationPathValue());
  fields.Add(command, "--report-only", "decontaminate.report_only");
  fields.Add(command, "--seed", "seed");
  fields.Add(command, "--embedding-servers", "embedder.addresses")->delimiter(',');
  fields.Add(command, "--neighbor-servers", "neighbors.addresses")->delimiter(',');
  command->add_option("--request-id", options->request_id,
                      "Idempotency key: a repeated request returns the existing job");
  command->add_flag("--wait", options->wait,
                    "Follow the job until it ends (always, without --server)");
  options->config.AddTo(command, "CorpusSpec");
  command->footer(
      "Examples:\n"
      "  braid submit corpus.jsonl.zst --wait\n"
      "  braid submit notes/ --vocab-size 4096 --sequence-length 512 --split-bytes 600\n"
      "  braid submit unlabeled/ --domain-clusters 8 --wait\n"
      "  braid submit fineweb/*.parquet --where 'language_score > 0.8 and language = \"en\"'\n"
      "  braid submit web_text_document.bin --tokenizer tokenizer.json\n"
      "  braid submit corpus.jsonl --decontaminate tasks=downstream/ --near-duplicates minhash\n"
      "  braid submit corpus.jsonl --order similarity --set neighbors.k=10\n"
      "  braid submit corpus.jsonl --embedder contriever --embedder-model models/contriever\n"
      "  braid submit corpus.jsonl --neighbor-servers 10.0.0.1:7077,10.0.0.2:7077");
  command->callback([&program, options] {
    program.action = [&program, options] { return Submit(program.session, *options); };
  });
}

}  // namespace

void AddCorpusCommands(CommandLine& program) {
  AddSubmit(program);
  CLI::App* corpus = program.app.add_subcommand("corpus", "Inspect corpora");
  corpus->require_subcommand(1);
  AddCorpusDescribe(program, corpus);
  CLI::App* jobs = program.app.add_subcommand("jobs", "List corpus jobs, newest first");
  jobs->footer("Example:\n  braid jobs --json | jq -r '.jobs[]?.id'");
  jobs->callback([&program] { program.action = [&program] { return ListJobs(program.session); }; });

  auto id = std::make_shared<std::string>();
  CLI::App* cancel = program.app.add_subcommand("cancel", "Cancel a queued or running corpus job");
  cancel->add_option("id", *id, "Job id, such as job-000001")->required();
  cancel->footer("Example:\n  braid cancel job-000001");
  cancel->callback([&program, id] {
    program.action = [&program, id] { return CancelJob(program.session, *id); };
  });
}

}  // namespace braid
