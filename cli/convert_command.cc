// The command "convert".
#include <algorithm>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "client/terminal/source_warning.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

struct ConvertOptions {
  std::string model, output, used_by, split = "keys", gate;
  std::vector<int32_t> layers;
  int32_t experts = 0, copies = 0, kept = 0, active_experts = 0;
  double noise = 0;
  uint64_t seed = 0;
  bool dense = false, force = false, strict = false;
};

absl::StatusOr<v1::ConvertRequest> RequestOf(Session& session, const ConvertOptions& options) {
  v1::ConvertRequest request;
  request.set_model(ModelReference(options.model));
  request.set_output_dir(AbsolutePath(options.output));
  request.set_force(options.force);
  request.set_strict(options.strict);
  if (options.kept > 0) {
    v1::KeptExperts* keep = request.mutable_keep();
    keep->set_num_experts(options.kept);
    ASSIGN_OR_RETURN(*keep->mutable_dataset_dir(), DatasetDirectory(session, options.used_by));
    keep->set_dense(options.dense);
    return request;
  }
  if (options.dense) {
    request.set_dense(true);
    return request;
  }
  if (options.noise > 0) {
    request.mutable_noise()->set_share(options.noise);
    request.mutable_noise()->set_seed(options.seed);
    return request;
  }
  v1::ExpertSplit* split = request.mutable_split();
  v1::ExpertSplit::Method method;
  v1::TokenRouting::Gate gate = v1::TokenRouting::GATE_UNSPECIFIED;
  if (!v1::ExpertSplit::Method_Parse(EnumName(options.split), &method) ||
      !(options.gate.empty() || v1::TokenRouting::Gate_Parse(EnumName(options.gate), &gate))) {
    return absl::InternalError("a choice of the command line has no value");
  }
  split->set_num_experts(std::max(options.experts, options.copies));
  split->set_method(options.copies > 0 ? v1::ExpertSplit::COPIES : method);
  split->set_gate(gate);
  split->set_seed(options.seed);
  if (options.active_experts > 0) split->set_active_experts(options.active_experts);
  split->mutable_layers()->Assign(options.layers.begin(), options.layers.end());
  return request;
}

void Print(const v1::ConvertResponse& response, double noise) {
  const v1::RoutingConfig& routing = response.model().routing();
  std::cout << "wrote checkpoint " << response.output_dir() << ": " << response.num_parameters()
            << " parameters, ";
  if (noise > 0) {
    std::cout << absl::StrFormat("noise of %g standard deviations on every matrix", noise);
  } else if (routing.router() == v1::TOKEN_CHOICE) {
    std::cout << routing.num_experts() << " experts, " << routing.token().active_experts()
              << " active";
    if (response.split_seconds() > 0) {
      std::cout << absl::StrFormat(", split in %.1f s", response.split_seconds());
    }
  } else {
    std::cout << "dense, "
              << (response.restored_order() ? "units in their places" : "units in expert order");
  }
  if (response.join_seconds() > 0) {
    std::cout << absl::StrFormat(", joined in %.1f s", response.join_seconds());
  }
  std::cout << std::endl;
}

absl::Status Convert(Session& session, const ConvertOptions& options) {
  ASSIGN_OR_RETURN(const v1::ConvertRequest request, RequestOf(session, options));
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  const absl::StatusOr<v1::ConvertResponse> response = client.Convert(request);
  if (Interrupted()) return absl::CancelledError("interrupted before the checkpoint was complete");
  RETURN_IF_ERROR(response.status());
  SourceWarning(std::cerr).Show(response->source());
  if (session.json) {
    std::cout << ToPrettyJson(*response) << std::endl;
  } else {
    Print(*response, options.noise);
  }
  return absl::OkStatus();
}

constexpr char kConvertFooter[] =
    "With all experts active, a split model computes the same function as the dense model.\n"
    "--dense restores the dense model, bit for bit if nothing was trained in between. With --keep\n"
    "and --dense, the experts that are kept are joined.\n"
    "\n"
    "Examples:\n"
    "  braid convert run-000001 --output experts --experts 16 --active-experts 8\n"
    "  braid convert run-000001 --output experts --experts 16 --split random --layers=-2\n"
    "  braid convert run-000001 --output half --keep 8 --used-by job-000001\n"
    "  braid convert run-000001 --output noisy --noise 0.15\n"
    "  braid train --data job-000001 --init-from experts --wait &&\n"
    "    braid convert run-000002 -o joined --dense";

// Adds the options of which one says what is done.
void AddConversions(CLI::App* command, ConvertOptions* options) {
  CLI::Option* experts = command
                             ->add_option("--experts", options->experts,
                                          "Split each FFN into this many experts; must divide d_ff")
                             ->check(PositiveInt32());
  CLI::Option* copies =
      command
          ->add_option("--copy", options->copies,
                       "Make this many copies of each FFN and use them as experts")
          ->check(PositiveInt32())
          ->excludes(experts);
  CLI::Option* used_by = command->add_option("--used-by", options->used_by,
                                             "With --keep: corpus job or dataset directory (also "
                                             "of a fine-tuning run) on which the uses of "
                                             "the experts are counted");
  CLI::Option* keep =
      command
          ->add_option(
              "--keep", options->kept,
              "Keep this many experts of each layer: those that the data of --used-by uses most")
          ->check(PositiveInt32())
          ->needs(used_by)
          ->excludes(experts)
          ->excludes(copies);
  used_by->needs(keep);
  CLI::Option* noise =
      command
          ->add_option("--noise", options->noise,
                       "Add uniform noise to each matrix before fine-tuning; its width is this "
                       "factor times the standard deviation of the matrix")
          ->check(PositiveUpTo(100))
          ->excludes(experts)
          ->excludes(copies)
          ->excludes(keep);
  command->add_flag("--dense", options->dense, "Join the experts of each layer to a dense FFN")
      ->excludes(experts)
      ->excludes(copies)
      ->excludes(noise);
}

// Adds the options of new experts. Requires: AddConversions was called.
void AddExpertOptions(CLI::App* command, ConvertOptions* options) {
  CLI::Option *dense = command->get_option("--dense"), *keep = command->get_option("--keep"),
              *noise = command->get_option("--noise");
  command->add_option("--split", options->split, "Rule that assigns hidden units to experts")
      ->capture_default_str()
      ->check(OneOf({"contiguous", "random", "keys"}))
      ->needs(command->get_option("--experts"));
  for (CLI::Option* option :
       {command
            ->add_option("--active-experts", options->active_experts,
                         "Experts that each token uses (default: half of them; 2 of copies)")
            ->check(PositiveInt32()),
        command
            ->add_option("--layers", options->layers,
                         "Layers to split, from 0; -1 is the last (default: all)")
            ->delimiter(',')
            ->check(IntegerBetween(-10'000, 10'000)),
        command
            ->add_option(
                "--gate", options->gate,
                "Gate by which tokens choose experts (default: key-mean; linear for copies)")
            ->check(OneOf({"key-mean", "linear", "cosine", "frozen"}))}) {
    option->excludes(keep)->excludes(dense)->excludes(noise);
  }
  command->add_option("--seed", options->seed, "Seed of random splits, clusters, gates and noise")
      ->capture_default_str()
      ->check(Seed())
      ->excludes(keep)
      ->excludes(dense);
}

}  // namespace

void AddConvertCommand(CommandLine& program) {
  auto options = std::make_shared<ConvertOptions>();
  CLI::App* command =
      program.app.add_subcommand("convert",
                                 "Convert a model: split or copy its FFNs into experts, keep the "
                                 "most used experts, join experts, or add noise");
  AddModel(command, &options->model);
  command->add_option("-o,--output", options->output, "Output checkpoint directory")->required();
  AddConversions(command, options.get());
  AddExpertOptions(command, options.get());
  command->add_flag("--force", options->force, "Overwrite an existing checkpoint");
  AddStrict(command, &options->strict);
  command->footer(kConvertFooter);
  command->callback([&program, options] {
    if (options->experts + options->copies + options->kept == 0 && !options->dense &&
        options->noise == 0) {
      throw CLI::RequiredError("--experts N, --copy N, --keep K, --noise X or --dense");
    }
    program.action = [&program, options] { return Convert(program.session, *options); };
  });
}

}  // namespace braid
