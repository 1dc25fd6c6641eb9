// The commands "export" and "import".
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/atomic_file.h"
#include "base/number_text.h"
#include "base/path_roots.h"
#include "base/status_macros.h"
#include "base/utf8.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/evaluation_flags.h"
#include "cli/user_file.h"
#include "client/terminal/source_warning.h"
#include "client/terminal/terminal_text.h"
#include "formats/safetensors.h"
#include "formats/sentencepiece_json.h"
#include "inference/huggingface/adapter_files.h"
#include "model/config/head_config.h"
#include "rpc/interrupt.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Replaces the error of an interrupted call.
template <class Response>
absl::StatusOr<Response> UnlessInterrupted(absl::StatusOr<Response> response) {
  if (Interrupted()) return absl::CancelledError("interrupted before the directory was complete");
  return response;
}

struct ExportOptions {
  std::string model, output, dtype, bake;
  int64_t max_shard_bytes = 5'000'000'000;
  int32_t threads = 0, active_experts = 0;
  bool force = false, strict = true, adapter = false, merge = false;
};

// Returns `prompt`, or the contents of FILE for "@FILE".
absl::StatusOr<std::string> BakedPrompt(const std::string& prompt) {
  if (!absl::StartsWith(prompt, "@")) return prompt;
  return ReadUserFile(prompt.substr(1));
}

// Warns of a layout that no stock program runs.
void WarnOfLayout(const v1::ExportResponse& response, std::ostream& out) {
  if (response.architecture().starts_with("BraidMixedLayers")) {
    out << "braid: warning: no stock program runs a model whose layers mix; 'braid import' reads "
           "it back, and docs/formats/export.md describes the files"
        << std::endl;
  }
  if (response.why_not_mixtral().empty()) return;
  out << "braid: warning: not a stock Mixtral, since " << response.why_not_mixtral()
      << "; modeling_braid.py runs the layout, which docs/formats/export.md describes" << std::endl;
}

// Returns the JSON object in a file; an empty one where there is none.
nlohmann::json ObjectIn(const fs::path& file) {
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (!text.ok()) return nlohmann::json::object();
  auto json = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

// Warns of a setting in config.json that no other program knows.
void WarnOfMask(const fs::path& directory, std::ostream& out) {
  if (!ObjectIn(directory / "config.json").contains("document_end")) return;
  out << "braid: warning: the model was trained with attention_mask DOCUMENT; transformers and "
         "other programs ignore document_end in "
      << (directory / "config.json").string()
      << ", so there documents see each other: give them one document per sequence" << std::endl;
}

void WarnOfChatTemplate(const v1::ExportResponse& response, std::ostream& out) {
  if (!response.unknown_chat_template()) return;
  out << "braid: warning: the chat template with which the model was imported is unknown and was "
         "not written; copy chat_template from the original tokenizer_config.json"
      << std::endl;
}

// Prints why an export of a SentencePiece model has no tokenizer.json.
void WarnOfMissingTokenizerJson(const v1::ExportResponse& response, std::ostream& out) {
  const fs::path directory = response.output_dir();
  std::error_code error;
  if (fs::exists(directory / "tokenizer.json", error)) return;
  const absl::StatusOr<std::string> model = ReadFile(directory / "tokenizer.model");
  if (!model.ok()) return;
  const absl::Status refused = SentencePieceJson(*model, std::nullopt).status();
  if (refused.ok()) return;
  out << "braid: warning: no tokenizer.json was written: " << refused.message()
      << "; programs need tokenizer.model" << std::endl;
}

void PrintExport(const v1::ExportResponse& response, std::ostream& out) {
  out << "wrote " << response.output_dir() << ": " << response.architecture() << ", "
      << response.num_parameters() << " parameters of step " << response.source().step() << "\n";
  if (response.num_merged_tensors() > 0) {
    out << absl::StrFormat(
        "merged adapters into %s; logits differ by at most %.1e of their range\n",
        Counted(response.num_merged_tensors(), "tensor"), response.max_logit_difference());
  }
  if (response.join_seconds() > 0) {
    out << absl::StrFormat("joined the experts in %.1f s\n", response.join_seconds());
  }
  for (const v1::ExportedFile& file : response.files()) {
    out << absl::StrFormat("  %-34s %15d bytes\n", file.name(), file.bytes());
  }
}

absl::Status Export(Session& session, const ExportOptions& options, bool bake) {
  v1::ExportRequest request;
  request.set_model(ModelReference(options.model));
  request.set_output_dir(AbsolutePath(options.output));
  request.set_force(options.force);
  request.set_strict(options.strict);
  request.set_adapter(options.adapter);
  request.set_merge(options.merge);
  request.set_dtype(options.dtype);
  request.set_max_shard_bytes(options.max_shard_bytes);
  request.set_num_threads(options.threads);
  if (options.active_experts > 0) request.set_active_experts(options.active_experts);
  if (bake) {
    ASSIGN_OR_RETURN(*request.mutable_bake_prompt(), BakedPrompt(options.bake));
    if (!IsValidUtf8(request.bake_prompt())) {
      return absl::InvalidArgumentError(
          absl::StrCat("--bake: ", options.bake.substr(1), " is not UTF-8; convert it with iconv"));
    }
  }
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  ASSIGN_OR_RETURN(const v1::ExportResponse response, UnlessInterrupted(client.Export(request)));
  SourceWarning(std::cerr).Show(response.source());
  WarnOfMask(response.output_dir(), std::cerr);
  WarnOfLayout(response, std::cerr);
  WarnOfChatTemplate(response, std::cerr);
  WarnOfMissingTokenizerJson(response, std::cerr);
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    PrintExport(response, std::cout);
  }
  return absl::OkStatus();
}

struct ImportOptions {
  std::string source, output, tokenizer, adapter, base;
  bool force = false;
};

void PrintImport(const v1::ImportResponse& response, std::ostream& out) {
  const std::string model = ShellText({response.output_dir()});
  out << "wrote checkpoint " << response.output_dir() << ": " << response.num_parameters()
      << " parameters\n";
  if (response.model().has_label_head()) {
    const v1::LabelHead& head = response.model().label_head();
    out << "it has a label head (" << LabelsText(head) << "); use it with: braid eval tasks "
        << model << " --data TASKS --answers DIR, braid finetune " << model
        << " --data FILE --label-head=" << (head.regression() ? "regression" : "classes")
        << std::endl;
    return;
  }
  const bool bos = response.model().start_token() == v1::START_WITH_BOS;
  out << "use it with: braid train --init-from " << model << " --data JOB, braid generate " << model
      << " --prompt TEXT\npack data for it with: braid submit PATH --tokenizer "
      << ShellText({response.output_dir() + "/tokenizer.model"}) << (bos ? " --begin-with-bos" : "")
      << std::endl;
  if (response.model().unknown_chat_template()) {
    out << "its chat template is unknown: name one with --template to generate or fine-tune on "
           "conversations\n";
  }
}

// Returns the model that adapter_config.json names; "" without any.
std::string StatedBase(const fs::path& adapter) {
  const nlohmann::json json = ObjectIn(adapter / kAdapterConfigFile);
  const auto name = json.find("base_model_name_or_path");
  return name != json.end() && name->is_string() ? name->get<std::string>() : "";
}

// Returns whether the adapters in `directory` have checksums of their base.
bool HasBaseChecksums(const fs::path& directory) {
  const absl::StatusOr<SafetensorsFile> file =
      SafetensorsFile::Open(directory / kAdapterWeightsFile);
  return file.ok() && std::ranges::any_of(file->metadata(), [](const auto& entry) {
           return entry.first.starts_with(kBaseChecksum);
         });
}

// Warns of adapters without checksums of their base when the last folder of neither name is a part
// of the other: a run id is a part of the path of its checkpoints.
void WarnOfOtherBase(const ImportOptions& options, std::ostream& out) {
  const std::string stated = StatedBase(options.adapter);
  const auto last_is_in = [](const fs::path& a, const fs::path& b) {
    const fs::path last = a.has_filename() ? a.filename() : a.parent_path().filename();
    return std::ranges::find(b, last) != b.end();
  };
  if (stated.empty() || last_is_in(stated, options.base) || last_is_in(options.base, stated) ||
      HasBaseChecksums(options.adapter)) {
    return;
  }
  out << "braid: warning: " << (fs::path(options.adapter) / kAdapterConfigFile).string()
      << ": base_model_name_or_path: got " << stated << ", but --base is " << options.base
      << "; check that both are the same model" << std::endl;
}

absl::Status Import(Session& session, const ImportOptions& options) {
  if (options.source.empty() == options.adapter.empty()) {
    return absl::InvalidArgumentError(
        "import: expected a directory with a model, or --adapter DIR with --base MODEL");
  }
  v1::ImportRequest request;
  request.set_source_dir(AbsolutePath(options.adapter.empty() ? options.source : options.adapter));
  if (!options.base.empty()) request.set_base(ModelReference(options.base));
  request.set_output_dir(AbsolutePath(options.output));
  request.set_tokenizer(AbsolutePath(options.tokenizer));
  request.set_force(options.force);
  ASSIGN_OR_RETURN(AnalysisClient client, session.Analysis());
  CatchInterrupts();
  ASSIGN_OR_RETURN(const v1::ImportResponse response, UnlessInterrupted(client.Import(request)));
  if (!options.adapter.empty()) WarnOfOtherBase(options, std::cerr);
  if (session.json) {
    std::cout << ToPrettyJson(response) << std::endl;
  } else {
    PrintImport(response, std::cout);
  }
  return absl::OkStatus();
}

void AddExport(CommandLine& program) {
  auto options = std::make_shared<ExportOptions>();
  CLI::App* command = program.app.add_subcommand("export", "Export a model to Hugging Face format");
  AddModel(command, &options->model);
  command->add_option("-o,--output", options->output, "Output directory")->required();
  AddActiveExperts(command, &options->active_experts);
  const CLI::Option* bake = command->add_option(
      "--bake", options->bake,
      "Export the dense model that routing on this prompt produces; @FILE reads the prompt from a "
      "file");
  command
      ->add_option("--dtype", options->dtype,
                   "Type of the weights (default: that of imported weights, otherwise float32)")
      ->check(OneOf({"float32", "bfloat16", "float16"}));
  command
      ->add_option("--max-shard-size", options->max_shard_bytes,
                   "Maximum size of a weights file (default: 5GB)")
      ->transform(ByteSize());
  CLI::Option* const adapter =
      command
          ->add_flag("--adapter", options->adapter,
                     "Export only the adapters of a fine-tuning run, in the format of PEFT")
          ->excludes(command->get_option("--active-experts"))
          ->excludes(command->get_option("--max-shard-size"));
  command
      ->add_flag("--merge", options->merge,
                 "Merge the adapters of a fine-tuning run into the weights (the default for such "
                 "a run; an error for others)")
      ->excludes(adapter);
  command->add_flag("--force", options->force, "Overwrite an existing export");
  AddStrict(command, &options->strict);
  AddThreads(command, &options->threads);
  command->footer(
      "A dense model is exported as a standard LLaMA, Qwen2, Qwen3 or GPT-2;\n"
      "docs/formats/export.md describes models with experts.\n"
      "\n"
      "Examples:\n"
      "  braid export run-000001 --output llama --dtype bfloat16\n"
      "  braid export run-000001 --output license-llama --bake 'The license'\n"
      "  braid export run-000001 --output code-llama --bake @main.cc --json");
  command->callback([&program, options, bake] {
    program.action = [&program, options, bake] {
      return Export(program.session, *options, bake->count() > 0);
    };
  });
}

void AddImport(CommandLine& program) {
  auto options = std::make_shared<ImportOptions>();
  CLI::App* command = program.app.add_subcommand(
      "import",
      "Import a Hugging Face model (LLaMA, Mistral, Mixtral, Qwen2, Qwen3, GPT-2) as a checkpoint");
  command->add_option("source", options->source,
                      "Directory with config.json and safetensors files");
  CLI::Option* const base = command->add_option(
      "--base", options->base,
      "Model that the adapter was trained for: run id, run directory or checkpoint directory");
  CLI::Option* const adapter = command->add_option(
      "--adapter", options->adapter,
      "Directory with adapter_config.json and adapter_model.safetensors, instead of a model");
  base->needs(adapter);
  adapter->needs(base);
  command->add_option("-o,--output", options->output, "Output checkpoint directory")->required();
  command
      ->add_option(
          "--tokenizer", options->tokenizer,
          "Tokenizer: SentencePiece model or tokenizer.json (default: the one in the source)")
      ->excludes(adapter);
  command->add_flag("--force", options->force, "Overwrite an existing checkpoint");
  command->footer(
      "Examples:\n"
      "  braid import llama --output llama-checkpoint\n"
      "  braid import --adapter peft --base llama-checkpoint --output llama-adapted\n"
      "  braid submit corpus.jsonl.zst --tokenizer llama/tokenizer.model --wait\n"
      "  braid train --data job-000001 --init-from llama-checkpoint --experts 8");
  command->callback([&program, options] {
    program.action = [&program, options] { return Import(program.session, *options); };
  });
}

}  // namespace

void AddExportCommands(CommandLine& program) {
  AddExport(program);
  AddImport(program);
}

}  // namespace braid
