#include "model/kernels/head_panels.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>

#include "model/kernels/head_chunks.h"
#include "model/kernels/small_gemm.h"
#include "model/kernels/task_grain.h"
#include "model/kernels/token_panels.h"

namespace braid {
namespace {

constexpr int64_t kMostWidth = 128;
// Rows of logits are this many floats longer: in a vocabulary of a power of 2, the rows of a block
// would share their places in the first-level cache.
constexpr int64_t kRowPadding = 16;

// The arrays of a call.
struct HeadArrays {
  int64_t width, vocabulary;
  const float* head;
  const float* columns;  // [D, 64] for each 64 rows of the head
  float* gradients;      // rows of `stride` floats for the tokens of a chunk
  int64_t stride;
};

void ComputeLogits(const HeadArrays& a, const float* x, int64_t tokens, float* logits) {
  for (int64_t block = 0; block < NumBlocks(a.vocabulary); ++block) {
    const int64_t first = block * kBlockFeatures, columns = BlockWidth(a.vocabulary, block);
    const SmallGemm product({.rows = tokens,
                             .columns = columns,
                             .depth = a.width,
                             .left_stride = a.width,
                             .right_stride = columns,
                             .out_stride = a.stride});
    product(x, a.columns + first * a.width, logits + first);
  }
}

void ComputeInputGradients(const HeadArrays& a, const float* gradients, int64_t tokens, float scale,
                           float* dx) {
  for (int64_t block = 0; block < NumBlocks(a.width); ++block) {
    const int64_t first = block * kBlockFeatures;
    const SmallGemm product({.rows = tokens,
                             .columns = BlockWidth(a.width, block),
                             .depth = a.vocabulary,
                             .left_stride = a.stride,
                             .right_stride = a.width,
                             .out_stride = a.width});
    product(gradients, a.head + first, dx + first);
  }
  for (int64_t i = 0; i < tokens * a.width; ++i) dx[i] *= scale;
}

// Adds gradients^T x to 64 by 64 elements of dhead, panel by panel.
void AddHeadGradient(const HeadArrays& a, const float* x, int64_t tokens, int64_t item,
                     float* dhead) {
  const int64_t blocks = NumBlocks(a.width);
  const int64_t row = item / blocks * kBlockFeatures, column = item % blocks * kBlockFeatures;
  for (int64_t first = 0; first < tokens; first += kPanelTokens) {
    const SmallGemm product({.rows = BlockWidth(a.vocabulary, item / blocks),
                             .columns = BlockWidth(a.width, item % blocks),
                             .depth = std::min(kPanelTokens, tokens - first),
                             .left_stride = a.stride,
                             .right_stride = a.width,
                             .out_stride = a.width,
                             .left_transposed = true,
                             .accumulate = true});
    product(a.gradients + first * a.stride + row, x + first * a.width + column,
            dhead + row * a.width + column);
  }
}

}  // namespace

bool CanRunHeadPanels(const at::Tensor& hidden, const at::Tensor& head) {
  return hidden.device().is_cpu() && hidden.scalar_type() == at::kFloat &&
         hidden.size(1) <= kMostWidth && hidden.is_contiguous() && head.is_contiguous() &&
         HasSmallGemm();
}

void RunHeadPanels(const at::Tensor& hidden, const at::Tensor& head, double scale,
                   absl::FunctionRef<void(int64_t token, float* logits)> differentiate,
                   const at::Tensor& dhidden, const at::Tensor& dhead) {
  const int64_t num_tokens = hidden.size(0), width = hidden.size(1), vocabulary = head.size(0);
  const int64_t chunk = std::min(num_tokens, HeadChunkTokens(vocabulary));
  const int64_t stride = (vocabulary + kRowPadding - 1) / kRowPadding * kRowPadding + kRowPadding;
  const at::Tensor head_columns = at::empty({head.numel()}, head.options());
  const at::Tensor chunk_gradients = at::empty({chunk, stride}, head.options());
  const at::Tensor scaled_inputs = at::empty({chunk, width}, head.options());
  float* const columns = head_columns.data_ptr<float>();
  float* const gradients = chunk_gradients.data_ptr<float>();
  float* const scaled = scaled_inputs.data_ptr<float>();
  const HeadArrays a = {.width = width,
                        .vocabulary = vocabulary,
                        .head = head.data_ptr<float>(),
                        .columns = columns,
                        .gradients = gradients,
                        .stride = stride};
  at::parallel_for(0, NumBlocks(vocabulary), GrainOf(kTaskElements, kBlockFeatures * width),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t block = begin; block < end; ++block) {
                       const int64_t offset = block * kBlockFeatures * width;
                       ToColumns(a.head + offset, BlockWidth(vocabulary, block), width,
                                 columns + offset);
                     }
                   });
  const auto factor = static_cast<float>(scale);
  const float* const x = hidden.data_ptr<float>();
  for (int64_t start = 0; start < num_tokens; start += chunk) {
    const int64_t tokens = std::min(chunk, num_tokens - start);
    const int64_t panels = (tokens + kPanelTokens - 1) / kPanelTokens;
    at::parallel_for(0, panels, 1, [&](int64_t begin, int64_t end) {
      for (int64_t panel = begin; panel < end; ++panel) {
        const int64_t first = panel * kPanelTokens, n = std::min(kPanelTokens, tokens - first);
        const float* const of_panel = x + (start + first) * width;
        float* const rows = gradients + first * stride;
        ComputeLogits(a, of_panel, n, rows);
        for (int64_t i = 0; i < n; ++i) differentiate(start + first + i, rows + i * stride);
        ComputeInputGradients(a, rows, n, factor,
                              dhidden.data_ptr<float>() + (start + first) * width);
        for (int64_t i = 0; i < n * width; ++i) scaled[first * width + i] = factor * of_panel[i];
      }
    });
    if (!dhead.defined()) continue;
    at::parallel_for(0, NumBlocks(vocabulary) * NumBlocks(width), 1,
                     [&](int64_t begin, int64_t end) {
                       for (int64_t item = begin; item < end; ++item) {
                         AddHeadGradient(a, scaled, tokens, item, dhead.data_ptr<float>());
                       }
                     });
  }
}

}  // namespace braid
