// When an expert model's routers decide, and what they may look at.
#ifndef BRAID_MODEL_CONFIG_MERGE_MODE_H_
#define BRAID_MODEL_CONFIG_MERGE_MODE_H_

namespace braid {

enum class MergeMode {
  // As the router is defined for training. Differs from kSegment for expert
  // choice only, which then compares all segments or tokens of a sequence.
  kTraining,
  // The causal use outside training: one decision a segment (for PREFIX a
  // sequence, for EXPERT_CHOICE_TOKEN a token). Expert choice, which cannot see
  // the future there, sends each segment or token to its best expert.
  kSegment,
  // One decision a sequence, from the prompt. EXPERT_CHOICE_TOKEN, which has no
  // decision to keep, behaves as in kSegment.
  kPrompt,
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MERGE_MODE_H_
