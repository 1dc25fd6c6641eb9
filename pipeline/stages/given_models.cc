#include "pipeline/stages/given_models.h"

#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/status_macros.h"
#include "formats/tokenizer.h"
#include "pipeline/corpus/corpus_files.h"
#include "pipeline/stages/embed_stage.h"
#include "pipeline/stages/tokenize_stage.h"

namespace braid {
namespace {

// Returns an error of the content of given files, which includes a file that a directory lacks, as
// one of the setting that names them.
absl::Status AsErrorOfSetting(std::string_view setting, const absl::Status& status) {
  const bool of_content = absl::IsInvalidArgument(status) || absl::IsUnimplemented(status) ||
                          absl::IsNotFound(status) ||
                          (absl::IsDataLoss(status) && !IsSystemError(status));
  if (!of_content) return status;
  return absl::InvalidArgumentError(absl::StrCat(std::string(setting), ": ", status.message()));
}

absl::Status CheckTokenizer(const v1::TokenizerConfig& config) {
  if (config.model_path().empty()) return absl::OkStatus();
  const absl::StatusOr<TokenizerFile> file = ReadClientTokenizer(config.model_path());
  const absl::StatusOr<std::unique_ptr<Tokenizer>> tokenizer =
      file.ok() ? Tokenizer::Parse(*file) : file.status();
  RETURN_IF_ERROR(AsErrorOfSetting("tokenizer.model_path", tokenizer.status()));
  return FirstToken(config, **tokenizer).status();
}

}  // namespace

absl::Status CheckGivenModels(const v1::CorpusSpec& resolved) {
  RETURN_IF_ERROR(CheckTokenizer(resolved.tokenizer()));
  return AsErrorOfSetting("embedder.model_dir", CheckEmbedderFiles(resolved.embedder()));
}

}  // namespace braid
