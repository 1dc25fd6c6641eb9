// Layouts of activations for small matrix products: the tokens of each segment are cut into panels
// of at most 64.
//
// A panel of t tokens by D features has two forms:
//   columns  [D, t]: the values of a feature for all tokens are adjacent
//   blocks   D / 64 blocks of [t, 64 features] (the last may be narrower): the
//            rows of a block are adjacent
// Both take as much room as the panel's rows: the data of a panel starts at first_token * D.
//
// With columns, M x and M^T y are row-major products whose inner loop runs over tokens; with
// blocks, so are the outer products dy^T x, 64 features at a time. No product needs to pack its
// operands.
#ifndef BRAID_MODEL_KERNELS_TOKEN_PANELS_H_
#define BRAID_MODEL_KERNELS_TOKEN_PANELS_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace braid {

inline constexpr int64_t kPanelTokens = 64;    // maximum tokens of a panel
inline constexpr int64_t kBlockFeatures = 64;  // features of a block, except the last one

// Returns the number of blocks of `width` features, and the features of one of them.
constexpr int64_t NumBlocks(int64_t width) { return (width + kBlockFeatures - 1) / kBlockFeatures; }
constexpr int64_t BlockWidth(int64_t width, int64_t block) {
  return std::min(kBlockFeatures, width - block * kBlockFeatures);
}

// Consecutive tokens of one segment, at most kPanelTokens.
struct TokenPanel {
  int64_t segment;
  int64_t first_token;  // index in the whole array
  int64_t num_tokens;
};

// Cuts `num_segments` consecutive segments of `segment_tokens` tokens into panels. A panel never
// crosses a segment boundary, since segments have different merged matrices.
std::vector<TokenPanel> CutIntoPanels(int64_t num_segments, int64_t segment_tokens);

// Transposes rows [t, width] to columns [width, t].
void ToColumns(const float* rows, int64_t num_tokens, int64_t width, float* columns);
// Transposes columns [width, t] back to rows [t, width].
void FromColumns(const float* columns, int64_t num_tokens, int64_t width, float* rows);
// Copies rows [t, width] to blocks.
void ToBlocks(const float* rows, int64_t num_tokens, int64_t width, float* blocks);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_TOKEN_PANELS_H_
