// The command "corpus describe".
#include <unistd.h>

#include <iostream>
#include <memory>

#include "base/status_macros.h"
#include "braid/v1/pipeline.pb.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/field_flags.h"
#include "client/terminal/corpus_table.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/terminal_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct CorpusDescribeOptions {
  int64_t long_bytes = 0;
  FieldFlags fields{"braid.v1.CorpusSpec"};
  ConfigOptions config;
};

// Returns a request to read what `braid submit` would read with the same options.
absl::StatusOr<v1::DescribeCorpusRequest> RequestOf(const CorpusDescribeOptions& options) {
  v1::CorpusSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  RETURN_IF_ERROR(options.fields.Apply(&spec));
  v1::DescribeCorpusRequest request;
  *request.mutable_paths() = spec.paths();
  *request.mutable_ingest() = spec.ingest();
  request.set_long_document_bytes(options.long_bytes);
  return request;
}

absl::Status DescribeCorpus(Session& session, const CorpusDescribeOptions& options) {
  ASSIGN_OR_RETURN(const v1::DescribeCorpusRequest request, RequestOf(options));
  ASSIGN_OR_RETURN(PipelineClient client, session.Pipeline());
  ProgressBoard board(std::cerr, IsTerminal(STDERR_FILENO));
  CatchInterrupts();
  const absl::StatusOr<v1::CorpusDescription> corpus =
      client.DescribeCorpus(request, [&](const v1::DescribeCorpusEvent& event) {
        board.Update("read", ProgressOf(event, "bytes"));
      });
  board.Close();
  if (Interrupted()) return absl::CancelledError("interrupted");
  RETURN_IF_ERROR(corpus.status());
  if (session.json) {
    std::cout << ToPrettyJson(*corpus) << std::endl;
  } else {
    PrintCorpus(*corpus, options.long_bytes, std::cout);
  }
  return absl::OkStatus();
}

}  // namespace

void AddCorpusDescribe(CommandLine& program, CLI::App* corpus) {
  auto options = std::make_shared<CorpusDescribeOptions>();
  CLI::App* command = corpus->add_subcommand(
      "describe", "Summarize a corpus before submitting it: domains, text, rejected records");
  FieldFlags& fields = options->fields;
  fields.Add(command, "paths", "paths")->transform(AbsolutePathValue());
  fields.Add(command, "--text-field", "ingest.text_field");
  fields.Add(command, "--domain-field", "ingest.domain_field");
  fields.Add(command, "--where", "ingest.where");
  command
      ->add_option("--long-bytes", options->long_bytes,
                   "Also count documents with more bytes of text than this, such as 4KB")
      ->type_name("SIZE")
      ->transform(ByteSize());
  fields.Add(command, "--strict", "ingest.strict");
  options->config.AddTo(command, "CorpusSpec");
  command->footer(
      "Examples:\n"
      "  braid corpus describe corpus.jsonl.zst\n"
      "  braid corpus describe notes/ --long-bytes 4KB --json\n"
      "  braid corpus describe pile/ --domain-field meta.pile_set_name");
  command->callback([&program, options] {
    program.action = [&program, options] { return DescribeCorpus(program.session, *options); };
  });
}

}  // namespace braid
