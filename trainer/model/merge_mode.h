// How an expert model's FFNs are merged when it is not training.
#ifndef BRAID_TRAINER_MODEL_MERGE_MODE_H_
#define BRAID_TRAINER_MODEL_MERGE_MODE_H_

namespace braid {

enum class MergeMode {
  // One decision a segment, from the segment before, as in training.
  kSegment,
  // One decision a sequence, from the prompt.
  kPrompt,
};

}  // namespace braid

#endif  // BRAID_TRAINER_MODEL_MERGE_MODE_H_
