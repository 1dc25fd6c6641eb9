// The commands "delete" and "gc".
#include <unistd.h>

#include <iostream>
#include <memory>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/number_text.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "client/terminal/tables.h"

namespace braid {
namespace {

struct DeleteOptions {
  std::vector<std::string> ids;
  std::string older_than;
  int32_t keep = 0;
  bool checkpoints = false, include_evaluated = false, dry_run = false, yes = false;
};

std::string SizeText(int64_t bytes) {
  return absl::StrCat(CompactCount(static_cast<double>(bytes)), "B");
}

int64_t NumDeleted(const v1::DeletionResponse& response) {
  int64_t count = 0;
  for (const v1::Deletion& each : response.deletions()) count += each.kept_because().empty();
  return count;
}

void PrintDeletions(const v1::DeletionResponse& response, const DeleteOptions& options,
                    std::ostream& out) {
  const std::string deleted = absl::StrCat(response.dry_run() ? "would be " : "",
                                           options.checkpoints ? "reduced" : "deleted");
  Table table({"ID", "NAME", "OWNER", "ENDED (UTC)", "FREED", "RESULT"});
  for (const v1::Deletion& each : response.deletions()) {
    table.AddRow({each.id(), NameText(each.name()), each.principal(),
                  FormatTime(each.finished_at()), SizeText(each.freed_bytes()),
                  each.kept_because().empty() ? deleted : "kept: " + each.kept_because()});
  }
  if (!response.deletions().empty()) table.Print(out);
  out << (response.dry_run() ? "would free " : "freed ") << SizeText(response.freed_bytes()) << " ("
      << response.freed_bytes() << " bytes)" << std::endl;
}

// Shows what `plan` contains and returns whether the user agrees.
bool UserAgrees(const v1::DeletionResponse& plan, const DeleteOptions& options) {
  PrintDeletions(plan, options, std::cerr);
  if (NumDeleted(plan) == 0) return false;
  std::cerr << "Continue? [y/N] " << std::flush;
  std::string answer;
  std::getline(std::cin, answer);
  absl::AsciiStrToLower(&answer);
  return answer == "y" || answer == "yes";
}

// Asks for confirmation where that is necessary and possible, then deletes. `call` makes the
// request, as a dry run or not.
template <class Call>
absl::Status ConfirmAndDelete(Session& session, const DeleteOptions& options, const Call& call) {
  if (!options.dry_run && !options.yes) {
    if (session.json || isatty(STDIN_FILENO) == 0) {
      return absl::InvalidArgumentError(
          "the deletion was not confirmed: expected --yes, or --dry-run to see what would be "
          "deleted; braid asks for confirmation only on a terminal and without --json");
    }
    ASSIGN_OR_RETURN(const v1::DeletionResponse plan, call(/*dry_run=*/true));
    if (!UserAgrees(plan, options)) return absl::OkStatus();
  }
  ASSIGN_OR_RETURN(const v1::DeletionResponse response, call(options.dry_run));
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    PrintDeletions(response, options, std::cout);
  }
  return absl::OkStatus();
}

absl::Status DeleteItems(Session& session, const DeleteOptions& options) {
  ASSIGN_OR_RETURN(StorageClient client, session.Storage());
  v1::DeletionResponse response;
  RETURN_IF_ERROR(ConfirmAndDelete(session, options, [&](bool dry_run) {
    v1::DeleteRequest request;
    request.mutable_ids()->Assign(options.ids.begin(), options.ids.end());
    request.set_dry_run(dry_run);
    const absl::StatusOr<v1::DeletionResponse> answer = client.Delete(request);
    if (answer.ok()) response = *answer;
    return answer;
  }));
  // The reasons are in the output.
  std::vector<std::string> kept;
  for (const v1::Deletion& each : response.deletions()) {
    if (!each.kept_because().empty()) kept.push_back(each.id());
  }
  if (kept.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("not deleted: ", absl::StrJoin(kept, ", ")));
}

absl::Status CollectGarbage(Session& session, const DeleteOptions& options) {
  if (options.keep == 0 && options.older_than.empty()) {
    return absl::InvalidArgumentError("got neither --keep nor --older-than, expected at least one");
  }
  v1::CollectGarbageRequest request;
  request.set_keep(options.keep);
  ASSIGN_OR_RETURN(const int64_t age, ParseDuration("--older-than", options.older_than));
  request.set_older_than_seconds(static_cast<double>(age));
  request.set_checkpoints(options.checkpoints);
  request.set_include_evaluated(options.include_evaluated);
  ASSIGN_OR_RETURN(StorageClient client, session.Storage());
  return ConfirmAndDelete(session, options, [&](bool dry_run) {
    request.set_dry_run(dry_run);
    return client.CollectGarbage(request);
  });
}

void AddConfirmation(CLI::App* command, DeleteOptions& options) {
  command->add_flag("--dry-run", options.dry_run,
                    "Print what would be deleted, and delete nothing");
  command->add_flag("--yes", options.yes,
                    "Delete without confirmation; necessary with --json and without a terminal");
}

}  // namespace

void AddDeleteCommands(CommandLine& program) {
  auto options = std::make_shared<DeleteOptions>();
  CLI::App* remove = program.app.add_subcommand(
      "delete", "Delete jobs and runs that have ended, with their files");
  remove
      ->add_option("id", options->ids, "Job or run ids; if one of them cannot be deleted, none is")
      ->required();
  AddConfirmation(remove, *options);
  remove->footer(
      "A job cannot be deleted while a run that was trained on its dataset exists. A run "
      "cannot be\n"
      "deleted while another run that was initialized from it exists.\n"
      "\n"
      "Examples:\n"
      "  braid delete run-000003 --dry-run\n"
      "  braid delete run-000003 job-000001 --yes");
  remove->callback([&program, options] {
    program.action = [&program, options] { return DeleteItems(program.session, *options); };
  });

  auto policy = std::make_shared<DeleteOptions>();
  CLI::App* collect = program.app.add_subcommand(
      "gc", "Delete old jobs, runs and fine-tuning data that nothing uses");
  collect
      ->add_option("--keep", policy->keep,
                   "Number of newest jobs, and of newest runs, of each user to keep")
      ->check(PositiveInt32());
  collect->add_option("--older-than", policy->older_than,
                      "Delete only what ended at least this long ago, such as 30d, 12h or 30m");
  collect->add_flag(
      "--checkpoints", policy->checkpoints,
      "Keep the runs, and delete their checkpoints except the newest good one, the one "
      "with the best validation, and those of checkpoint.keep_every_steps");
  collect
      ->add_flag("--include-evaluated", policy->include_evaluated,
                 "Delete runs that hold results of evaluations, too")
      ->excludes(collect->get_option("--checkpoints"));
  AddConfirmation(collect, *policy);
  collect->footer(
      "A job or run is deleted only if it has ended and meets all given conditions. --older-than\n"
      "also deletes datasets and models that 'braid finetune' prepared in supervised/ of --home,\n"
      "if they were last used that long ago.\n"
      "\n"
      "Examples:\n"
      "  braid gc --keep 10 --older-than 30d --dry-run\n"
      "  braid gc --older-than 7d --checkpoints --yes");
  collect->callback([&program, policy] {
    program.action = [&program, policy] { return CollectGarbage(program.session, *policy); };
  });
}

}  // namespace braid
