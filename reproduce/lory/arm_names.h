// Names of the arms of the experiment on Lory; lory_experiment.cc defines them.
#ifndef BRAID_REPRODUCE_LORY_ARM_NAMES_H_
#define BRAID_REPRODUCE_LORY_ARM_NAMES_H_

namespace braid::arm {

inline constexpr char kDense[] = "dense";
inline constexpr char kMoe[] = "moe";
inline constexpr char kPrefix[] = "prefix";
inline constexpr char kExpertChoiceSegment[] = "expert-choice-segment";
inline constexpr char kExpertChoiceToken[] = "expert-choice-token";
inline constexpr char kNoWarmup[] = "no-warmup";
inline constexpr char kNoWarmup16[] = "no-warmup-experts-16";
inline constexpr char kExperts4[] = "experts-4";
inline constexpr char kExperts16[] = "experts-16";
inline constexpr char kSegment32[] = "segments-32";
inline constexpr char kSegment128[] = "segments-128";
inline constexpr char kUniformFirst[] = "uniform-first-segment";

}  // namespace braid::arm

#endif  // BRAID_REPRODUCE_LORY_ARM_NAMES_H_
