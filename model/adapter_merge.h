// Merges low-rank adapters into the weights that they change, which gives a model without adapters.
#ifndef BRAID_MODEL_ADAPTER_MERGE_H_
#define BRAID_MODEL_ADAPTER_MERGE_H_

#include <span>

#include "model/config/finetuning_config.h"

namespace braid {

// Adds scale B A to W, summed in double precision, with the shapes of an AdapterSpec: a [rank, in],
// b [out, rank], and weight [out, in], or [in, out] where the spec's matrix is a transpose; each
// [E, ...] for experts. A B of zeros changes no bit.
void MergeAdapter(const AdapterSpec& spec, double scale, std::span<const float> a,
                  std::span<const float> b, std::span<float> weight);

}  // namespace braid

#endif  // BRAID_MODEL_ADAPTER_MERGE_H_
