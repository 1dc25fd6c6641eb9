#include "model/kernels/routed_ffn.h"

#include <omp.h>

#include <algorithm>
#include <iterator>
#include <vector>

#include "model/kernels/phase_times.h"
#include "model/kernels/routed_ffn_pass.h"
#include "model/kernels/scratch.h"
#include "model/kernels/vector_kernels.h"

namespace braid {
namespace {

// The forward pass of a group:
//   for each phase of experts:
//     for each expert, slab by slab:                                 (parallel over slabs)
//       for each panel, gathered; for each tile of hidden units, packed:
//         [g, u] = x [W_gate^T, W_up^T]      saved for backward if requested
//         y += (silu(g) * u) W_down
//     for each token: add its pairs                                  (parallel)
// Where an expert has few units, silu(g) * u is stored, and ProductsByToken does the rest.
class RoutedForward : public RoutedPass {
 public:
  RoutedForward(const TokenGroup& group, const FfnMatrices& matrices)
      : RoutedPass(group, matrices, group.experts.weights, kSlabPairs) {}

  void Run(float* y, int num_threads) {
    const int64_t values_size = 3 * kRoutedTileRows * kPanelTokens;
    const int64_t own_size = blocks_size() + packed_size() + values_size;
    const int64_t pairs_size = pair_rows_size(shape_.hidden);
    const int64_t shared_size = by_token_size(1);
    Scratch scratch(pairs_size + shared_size + num_threads * own_size + 3 * Scratch::kPadding);
    pair_rows_ = scratch.Take(pairs_size);
    shared_ = scratch.Take(shared_size);
    float* const own = scratch.Take(num_threads * own_size);
#pragma omp parallel num_threads(num_threads)
    {
      Buffers buffers;
      buffers.x = own + omp_get_thread_num() * own_size;
      buffers.packed = buffers.x + blocks_size();
      buffers.values = buffers.packed + packed_size();
      for (const ExpertPhase& phase : phases_) RunPhase(phase, &buffers, y);
    }
  }

 private:
  struct Buffers {
    float *x, *packed;
    float* values;               // [panel, rows], then [panel, 2 * rows]
    int64_t packed_expert = -1;  // the expert whose only tiles `packed` holds
  };

  void RunPhase(const ExpertPhase& phase, Buffers* buffers, float* y) const {
    // Each thread makes the same list for itself; a shared one would need another barrier.
    std::vector<ExpertSlab> slabs;
    for (int64_t i = phase.first_expert; i < phase.end_expert; ++i) {
      std::ranges::copy(SlabsOf(sorted_, order_[i], slab_pairs_), std::back_inserter(slabs));
    }
    // Slabs differ in size. Each has its own output rows, so results do not depend on which thread
    // processes it.
#pragma omp for schedule(dynamic)
    for (size_t i = 0; i < slabs.size(); ++i) {
      float* const out =
          by_token_ ? nullptr : pair_rows_ + (slabs[i].first - phase.first_pair) * row_stride_;
      if (!by_token_ && slabs[i].count <= shape_.unpacked_pairs) {
        ForwardUnpacked(slabs[i], *buffers, out);
      } else {
        ForwardSlab(slabs[i], buffers, out);
      }
    }
    if (by_token_) {
      by_token_->Run(pair_rows_, {{matrices_[2]}}, shared_, y);
    } else {
      // Ends with a barrier, after which the next phase may overwrite pair_rows_.
      AddPairs(phase, pair_rows_, y);
    }
  }

  void ForwardSlab(const ExpertSlab& slab, Buffers* buffers, float* out) const {
    ForEachPackedTile(slab.expert, [&](const ExpertTile& together) {
      if (buffers->packed_expert != slab.expert) Pack(together, buffers->packed);
      ForEachPanel(slab, [&](const PairPanel& panel) {
        // When all tiles of the expert are packed together, no later tile needs the panel's rows:
        // all panels are gathered in the same place, which stays in cache.
        const ExpertSlab rows = together.count < shape_.hidden
                                    ? slab
                                    : ExpertSlab{slab.expert, panel.first, panel.count};
        if (together.first == 0) Gather(rows, panel, group_.x, buffers->x);
        ForEachTile(together, buffers->packed, [&](const ExpertTile& tile, float* packed) {
          ForwardPanel(rows, panel, tile, packed, *buffers,
                       out + (panel.first - slab.first) * row_stride_);
        });
      });
      buffers->packed_expert = together.count == shape_.hidden ? slab.expert : -1;
    });
  }

  // Gate and up side by side make one product, unless it would have too many columns for one.
  static bool Joint(const ExpertTile& tile) { return 2 * tile.count <= kRoutedTileRows; }

  void Pack(const ExpertTile& together, float* all) const {
    ForEachTile(together, all, [&](const ExpertTile& tile, float* packed) {
      const int64_t rows = tile.count;
      PackColumns(tile, 0, Joint(tile) ? 2 * rows : rows, packed);
      PackColumns(tile, 1, Joint(tile) ? 2 * rows : rows,
                  packed + rows * (Joint(tile) ? 1 : shape_.width));
      if (!by_token_) PackRows(tile, 2, packed + 2 * rows * shape_.width);
    });
  }

  void ForwardPanel(const ExpertSlab& gathered, const PairPanel& panel, const ExpertTile& tile,
                    const float* packed, const Buffers& buffers, float* out) const {
    const int64_t rows = tile.count;
    float* const gate_up = Projections(panel, tile, buffers);
    if (Joint(tile)) {
      Project(gathered, panel, buffers.x, packed, 2 * rows, gate_up, 2 * rows);
    } else {
      Project(gathered, panel, buffers.x, packed, rows, gate_up, 2 * rows);
      Project(gathered, panel, buffers.x, packed + rows * shape_.width, rows, gate_up + rows,
              2 * rows);
    }
    if (by_token_) {
      Activate(panel, tile, gate_up, pair_rows_ + panel.first * rows);
      return;
    }
    Activate(panel, tile, gate_up, buffers.values);
    ProjectBack(panel, rows, /*accumulate=*/tile.first > 0, buffers.values,
                packed + 2 * rows * shape_.width, out);
  }

  // The same for an expert with few pairs, whose matrices are read in place.
  void ForwardUnpacked(const ExpertSlab& slab, const Buffers& buffers, float* out) const {
    ForEachPanel(slab, [&](const PairPanel& panel) {
      const float* x[kPanelTokens];
      float* y[kPanelTokens];
      for (int64_t i = 0; i < panel.count; ++i) {
        x[i] = group_.x + TokenOf(panel.first + i) * shape_.width;
        y[i] = out + (panel.first - slab.first + i) * row_stride_;
      }
      for (int64_t first = 0; first < shape_.hidden; first += kRoutedTileRows) {
        const ExpertTile tile = {slab.expert, first,
                                 std::min(kRoutedTileRows, shape_.hidden - first)};
        float* const gate_up = Projections(panel, tile, buffers);
        for (int64_t matrix : {0, 1}) {
          Vector().dots_of_rows(TileOf(tile, matrix), tile.count, shape_.width, x, panel.count,
                                gate_up + matrix * tile.count, 2 * tile.count);
        }
        Activate(panel, tile, gate_up, buffers.values);
        Vector().add_multiples(TileOf(tile, 2), tile.count, shape_.width, buffers.values,
                               tile.count, panel.count, /*accumulate=*/first > 0, y);
      }
    });
  }

  float* Projections(const PairPanel& panel, const ExpertTile& tile, const Buffers& buffers) const {
    return group_.kept != nullptr ? Kept(panel, tile)
                                  : buffers.values + kRoutedTileRows * kPanelTokens;
  }

  void Activate(const PairPanel& panel, const ExpertTile& tile, const float* gate_up,
                float* values) const {
    Vector().swiglu_rows(gate_up, panel.count, tile.count, values);
    for (int64_t i = 0; drops_ && i < panel.count; ++i) {
      Vector().drop_units(Dropped(panel.first + i, tile), values + i * tile.count);
    }
  }

  // Output rows of the pairs of a phase, or, for by_token_, hidden values [pairs, F] of all.
  float* pair_rows_ = nullptr;
  float* shared_ = nullptr;  // packed rows for by_token_
};

}  // namespace

void RoutedFfnForward(const RoutedFfnShape& shape, const float* x, const ChosenExperts& experts,
                      const FfnMatrices& matrices, float* kept, float* y, int num_threads,
                      const UnitDropout& dropout) {
  if (AreDense(shape, experts)) {
    FusedFfnForward(DenseShapeOf(shape), x, nullptr, matrices, kept, y, num_threads, dropout);
    return;
  }
  const ScopedPhase phase(Phase::kFfn);
  ForEachTokenGroup(shape, x, experts, kept, dropout, [&](const TokenGroup& group, int64_t token) {
    RoutedForward(group, matrices).Run(y + token * shape.width, num_threads);
  });
}

}  // namespace braid
