// The models that a spec names, checked when it is submitted: the stages that use them run after
// ingest, which may take hours.
#ifndef BRAID_PIPELINE_STAGES_GIVEN_MODELS_H_
#define BRAID_PIPELINE_STAGES_GIVEN_MODELS_H_

#include "absl/status/status.h"
#include "braid/v1/corpus.pb.h"

namespace braid {

// Checks that the tokenizer and the directory of the embedder, if the resolved spec names them, can
// be used. Does not read weights. INVALID_ARGUMENT names the setting and the file; other errors are
// those of accessing files.
absl::Status CheckGivenModels(const v1::CorpusSpec& resolved);

}  // namespace braid

#endif  // BRAID_PIPELINE_STAGES_GIVEN_MODELS_H_
