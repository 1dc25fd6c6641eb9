#include "inference/generation.h"

#include <memory>
#include <utility>

#include "base/status_macros.h"
#include "inference/loaded_model.h"
#include "inference/text_generation.h"

namespace braid {

absl::Status Generate(const v1::GenerateRequest& request,
                      const std::function<void(const v1::GenerateEvent&)>& emit) {
  SetModelThreads(request.num_threads());
  ASSIGN_OR_RETURN(const LoadedModel loaded, LoadedModel::Load(request.model(), request.strict()));
  ASSIGN_OR_RETURN(const std::unique_ptr<TextGeneration> text,
                   TextGeneration::Create(request, *loaded.model, *loaded.tokenizer));
  bool first = true;
  while (!text->done()) {
    ASSIGN_OR_RETURN(v1::GenerateEvent event, text->Advance());
    if (!event.done() && event.text().empty() && event.routing_size() == 0) continue;
    if (std::exchange(first, false)) *event.mutable_source() = loaded.source;
    emit(event);
  }
  return absl::OkStatus();
}

}  // namespace braid
