#include "model/kernels/token_panels.h"

#include <algorithm>

#include "model/kernels/vector_kernels.h"

namespace braid {

std::vector<TokenPanel> CutIntoPanels(int64_t num_segments, int64_t segment_tokens) {
  std::vector<TokenPanel> panels;
  for (int64_t segment = 0; segment < num_segments; ++segment) {
    for (int64_t token = 0; token < segment_tokens; token += kPanelTokens) {
      panels.push_back({segment, segment * segment_tokens + token,
                        std::min(kPanelTokens, segment_tokens - token)});
    }
  }
  return panels;
}

void ToColumns(const float* rows, int64_t num_tokens, int64_t width, float* columns) {
  Vector().transpose(rows, width, num_tokens, width, columns, num_tokens);
}

void FromColumns(const float* columns, int64_t num_tokens, int64_t width, float* rows) {
  Vector().transpose(columns, num_tokens, width, num_tokens, rows, width);
}

void ToBlocks(const float* rows, int64_t num_tokens, int64_t width, float* blocks) {
  for (int64_t begin = 0; begin < width; begin += kBlockFeatures) {
    const int64_t count = std::min(kBlockFeatures, width - begin);
    float* block = blocks + begin * num_tokens;
    for (int64_t token = 0; token < num_tokens; ++token) {
      std::copy_n(rows + token * width + begin, count, block + token * count);
    }
  }
}

}  // namespace braid
