#include "evaluation/heldout_answers.h"

#include <optional>
#include <string>
#include <utility>

#include "base/status_macros.h"
#include "evaluation/heldout_windows.h"
#include "formats/supervised_spans.h"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Appends the targets of one window to the stream. A document begins with an example.
void AppendAnswers(const Batch& batch, const TokenBytes& bytes, DomainText* domain) {
  int32_t example = -1;  // first position of the current example
  for (size_t t = 0; t < batch.targets.size(); ++t) {
    if (batch.targets[t] < 0) continue;
    if (batch.first_visible[t] != example) {
      example = batch.first_visible[t];
      domain->documents.push_back(std::ssize(domain->tokens));
    }
    domain->tokens.push_back(batch.targets[t]);
    domain->bytes.push_back(bytes.of_token[batch.targets[t]]);
  }
}

absl::StatusOr<DomainText> ReadDomain(const HeldoutDomain& heldout, const fs::path& directory,
                                      const TokenBytes& bytes, bool alone) {
  DomainText domain;
  domain.name = heldout.name;
  AnswerWindows answers;
  ASSIGN_OR_RETURN(
      answers.targets,
      SupervisedTargets::Open(HeldoutSpansPath(directory, heldout.name), heldout.windows, alone));
  for (int64_t i = 0; i < heldout.num_windows; ++i) {
    ASSIGN_OR_RETURN(answers.sequences.emplace_back(), heldout.windows.Read(i));
    Batch batch = heldout.windows.Assemble(std::span(&answers.sequences.back(), 1));
    answers.targets.Apply(i, 0, &batch);
    AppendAnswers(batch, bytes, &domain);
  }
  domain.answers = std::move(answers);
  return domain;
}

}  // namespace

absl::StatusOr<EvaluationText> HeldoutAnswers(const fs::path& dataset_dir, const DatasetInfo& info,
                                              const TokenBytes& bytes, int64_t max_windows,
                                              bool alone) {
  EvaluationText text{.domains = {}, .eos_id = info.eos_id};
  ASSIGN_OR_RETURN(const std::vector<HeldoutDomain> domains,
                   OpenDomains(dataset_dir, info, max_windows));
  for (const HeldoutDomain& domain : domains) {
    ASSIGN_OR_RETURN(text.domains.emplace_back(),
                     ReadDomain(domain, dataset_dir / "heldout", bytes, alone));
  }
  return text;
}

}  // namespace braid
