// gather
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/gathered_corpus.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

struct GatherOptions {
  std::string output;
  MachineCorpusOptions corpus = {.min_domains = 1, .min_bytes = 1};
};

std::string SummaryJson(const MachineCorpusSummary& summary) {
  nlohmann::json domains = nlohmann::json::array();
  for (const MachineCorpusDomain& domain : summary.domains) {
    domains.push_back({{"name", domain.name},
                       {"num_files", domain.num_files},
                       {"num_documents", domain.num_documents},
                       {"num_bytes", domain.num_bytes}});
  }
  const nlohmann::json object = {{"num_documents", summary.num_documents},
                                 {"num_bytes", summary.num_bytes},
                                 {"domains", domains}};
  return object.dump(2);
}

void PrintSummary(const MachineCorpusSummary& summary) {
  std::vector<std::vector<std::string>> rows = {{"DOMAIN", "FILES", "DOCUMENTS", "MB"}};
  for (const MachineCorpusDomain& domain : summary.domains) {
    rows.push_back({domain.name, WithThousands(domain.num_files),
                    WithThousands(domain.num_documents),
                    absl::StrFormat("%.1f", static_cast<double>(domain.num_bytes) / 1e6)});
  }
  PrintTable(rows, std::cout);
}

absl::Status Gather(const Session& session, GatherOptions options) {
  if (std::filesystem::exists(options.output)) {
    return absl::AlreadyExistsError(
        absl::StrCat(options.output, " is there already; remove it, or name another file"));
  }
  // Who names the domains wants them whole.
  if (!options.corpus.domains.empty()) options.corpus.max_domain_share = 1;
  ASSIGN_OR_RETURN(const MachineCorpusSummary summary,
                   GatherMachineCorpus(options.corpus, options.output));
  if (session.json) {
    std::cout << SummaryJson(summary) << std::endl;
    return absl::OkStatus();
  }
  PrintSummary(summary);
  std::cout << "wrote " << options.output << ": " << GatheredText(summary) << std::endl;
  return absl::OkStatus();
}

}  // namespace

void AddGatherCommand(Program& program) {
  auto options = std::make_shared<GatherOptions>();
  CLI::App* command =
      program.app.add_subcommand("gather", "Make a corpus of the text that this machine has");
  command->add_option("output", options->output, "File to write (.jsonl)")->required();
  command
      ->add_option("--domains", options->corpus.domains,
                   "Only these, comma-separated: c_headers, python, manual_pages, ...")
      ->delimiter(',');
  command->add_option("--bytes", options->corpus.target_bytes, "Text wanted (24MiB)")
      ->transform(ByteSize());
  command
      ->add_option("--split-bytes", options->corpus.split_bytes,
                   "Cut longer documents at paragraph or line boundaries")
      ->check(PositiveInt64());
  command->add_option("--seed", options->corpus.seed, "Chooses the files (0)")->check(Seed());
  command->footer(
      "Headers, Python and Perl sources, manual pages, licences and more that Debian packages\n"
      "install. The same machine and options give the same file.\n\n"
      "Examples:\n"
      "  braid gather text.jsonl\n"
      "  braid gather code.jsonl --domains python,c_headers --bytes 5MB");
  command->callback([&program, options] {
    program.action = [&program, options] { return Gather(program.session, *options); };
  });
}

}  // namespace braid
