// Resolution of a CorpusSpec: fills in every default and checks every value.
#ifndef BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_
#define BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/corpus.pb.h"

namespace braid {

// Returns the spec with the defaults documented in corpus.proto and with absolute paths.
// Resolving a resolved spec changes nothing. num_threads remains unset if it is not set: it then
// means the cores of the machine that runs the job. Does not access the files. Errors:
// INVALID_ARGUMENT, which names the field, what it got and what it expected, for a value out of
// range, an invalid combination of settings or an empty list of paths.
absl::StatusOr<v1::CorpusSpec> ResolveCorpusSpec(const v1::CorpusSpec& spec);

// Resolves the spec of a stored job in the same way, except that a missing order means SIMILARITY,
// the default of earlier versions.
absl::StatusOr<v1::CorpusSpec> ResolveStoredSpec(const v1::CorpusSpec& spec);

// Checks that no setting has no effect because of others, such as a dimension of hashed vectors
// with another embedder. INVALID_ARGUMENT as above. ResolveCorpusSpec does not check this, so that
// jobs which earlier versions stored run as before.
absl::Status CheckSettingsAreUsed(const v1::CorpusSpec& spec);

// Returns pack.runs_per_instance, whose default is 1.
int32_t RunsPerInstance(const v1::CorpusSpec& spec);

// Returns the fraction of documents to hold out: 0 if the held-out split is disabled.
double HeldoutFraction(const v1::CorpusSpec& resolved);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_CORPUS_SPEC_H_
