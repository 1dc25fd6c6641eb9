// A CorpusSpec with every default filled in and every value checked.
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_

#include "absl/status/statusor.h"
#include "braid/v1/pipeline.pb.h"

namespace braid {

// Fills in defaults (those documented in pipeline.proto) and makes paths
// absolute. Resolving a resolved spec changes nothing. num_threads 0 stays: it
// means the cores of the machine that runs the job.
//
// INVALID_ARGUMENT for a value out of range, a combination that means nothing or
// an empty list of paths, with the field, the value got and what is expected.
// Does not look at the file system.
absl::StatusOr<v1::CorpusSpec> ResolveCorpusSpec(const v1::CorpusSpec& spec);

// The share of documents held out: 0 where the spec asks for none.
double HeldoutFraction(const v1::CorpusSpec& resolved);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_
