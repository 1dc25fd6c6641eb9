// When the routers of an expert model decide, and which positions they may use.
#ifndef BRAID_MODEL_CONFIG_MERGE_MODE_H_
#define BRAID_MODEL_CONFIG_MERGE_MODE_H_

namespace braid {

enum class MergeMode {
  // As the router is defined for training. Differs from kSegment for expert choice only, which in
  // training compares all segments or tokens of a sequence.
  kTraining,
  // Segment routing, the causal use outside training: one decision per segment (PREFIX: per
  // sequence; EXPERT_CHOICE_TOKEN: per token). Expert choice cannot compare with later positions
  // here, so it sends each segment or token to its highest-scoring expert.
  kSegment,
  // Prompt routing: one decision per sequence, from the prompt. EXPERT_CHOICE_TOKEN has no decision
  // that could be kept for the sequence and behaves as in kSegment.
  kPrompt,
};

}  // namespace braid

#endif  // BRAID_MODEL_CONFIG_MERGE_MODE_H_
