// Activations as small matrix products want them: tokens in panels of at most 64
// of one segment.
//
// A panel of t tokens by D features is kept in two forms:
//   columns  [D, t]: a feature's values of all tokens side by side
//   blocks   D / 64 blocks of [t, 64 features] (the last may be narrower): the
//            rows of a block lie side by side
// Both take the place of the panel's rows: panel data starts at first_token * D.
#ifndef BRAID_MODEL_KERNELS_TOKEN_PANELS_H_
#define BRAID_MODEL_KERNELS_TOKEN_PANELS_H_

#include <cstdint>
#include <vector>

namespace braid {

inline constexpr int64_t kPanelTokens = 64;
inline constexpr int64_t kBlockFeatures = 64;

struct TokenPanel {
  int64_t segment;
  int64_t first_token;  // in the whole array
  int64_t num_tokens;
};

// Of `num_segments` segments of `segment_tokens` tokens one after the other.
std::vector<TokenPanel> CutIntoPanels(int64_t num_segments, int64_t segment_tokens);

// rows [t, width] -> columns [width, t].
void ToColumns(const float* rows, int64_t num_tokens, int64_t width, float* columns);
void FromColumns(const float* columns, int64_t num_tokens, int64_t width, float* rows);
// rows [t, width] -> blocks.
void ToBlocks(const float* rows, int64_t num_tokens, int64_t width, float* blocks);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_TOKEN_PANELS_H_
