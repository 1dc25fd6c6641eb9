// corpus describe
#include <unistd.h>

#include <filesystem>
#include <iostream>
#include <memory>

#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/corpus_table.h"
#include "client/terminal/progress_board.h"
#include "client/terminal/terminal_text.h"
#include "proto/config_text.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct CorpusDescribeOptions {
  std::vector<std::string> paths;
  std::string text_field, domain_field;
  int64_t long_bytes = 0;
  bool strict = false;
  ConfigOptions config;
};

// What `braid submit` would read with the same options.
absl::StatusOr<v1::DescribeCorpusRequest> RequestOf(const CorpusDescribeOptions& options) {
  v1::CorpusSpec spec;
  RETURN_IF_ERROR(options.config.Apply(&spec));
  for (const std::string& path : options.paths) {
    spec.add_paths(std::filesystem::absolute(path).lexically_normal().string());
  }
  v1::DescribeCorpusRequest request;
  *request.mutable_paths() = spec.paths();
  v1::IngestConfig* ingest = request.mutable_ingest();
  *ingest = spec.ingest();
  if (!options.text_field.empty()) ingest->set_text_field(options.text_field);
  if (!options.domain_field.empty()) ingest->set_domain_field(options.domain_field);
  if (options.strict) ingest->set_strict(true);
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
        Progress progress;
        progress.done = event.done();
        progress.total = event.total();
        progress.unit = "bytes";
        board.Update("read", progress);
      });
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

void AddCorpusDescribe(Program& program, CLI::App* corpus) {
  auto options = std::make_shared<CorpusDescribeOptions>();
  CLI::App* command = corpus->add_subcommand(
      "describe", "What a corpus holds before it is submitted: domains, text, rejected records");
  command->add_option("paths", options->paths,
                      "Files (.jsonl, .jsonl.gz, .jsonl.zst, .txt) or directories of text");
  command->add_option("--text-field", options->text_field, "JSON field with the text");
  command->add_option("--domain-field", options->domain_field,
                      "JSON field with the domain (domain)");
  command
      ->add_option("--long-bytes", options->long_bytes,
                   "Also count documents with more bytes of text than this, such as 4KB")
      ->transform(ByteSize());
  command->add_flag("--strict", options->strict, "Fail on the first bad record");
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
