#include "retrieval/byte_lists.h"

#include <algorithm>
#include <cmath>

#include "retrieval/byte_product.h"

namespace braid {

ByteVector RoundToBytes(const float* x, int32_t d, int8_t* bytes) {
  constexpr float kLargest = 127;
  float most = 0;
  for (int32_t i = 0; i < d; ++i) most = std::max(most, std::abs(x[i]));
  ByteVector rounded{.scale = most / kLargest};
  const float factor = most > 0 ? kLargest / most : 0;
  for (int32_t i = 0; i < d; ++i) {
    const int32_t byte = static_cast<int32_t>(std::lrint(x[i] * factor));
    bytes[i] = static_cast<int8_t>(byte);
    rounded.sum += byte;
    const float error = x[i] - static_cast<float>(byte) * rounded.scale;
    const float square = x[i] * x[i], squared_error = error * error;
    rounded.fourth_powers += square * square;
    rounded.error_fourth_powers += squared_error * squared_error;
  }
  std::fill(bytes + d, bytes + PaddedDimension(d), int8_t{0});
  return rounded;
}

ByteLists::ByteLists(const DocumentVectors& vectors, const InvertedLists& lists)
    : padded_d_(PaddedDimension(vectors.d)), first_tile_(lists.num_lists() + 1, 0) {
  for (int64_t list = 0; list < lists.num_lists(); ++list) {
    const auto size = static_cast<int64_t>(lists.documents(list).size());
    first_tile_[list + 1] = first_tile_[list] + (size + kTileVectors - 1) / kTileVectors;
  }
  constexpr uint8_t kZero = 128;
  tiles_.assign(first_tile_.back() * kTileVectors * padded_d_, kZero);
  scales_.assign(first_tile_.back() * kTileVectors, 0.0f);
  std::vector<float> errors(lists.num_lists(), 0.0f);
  ParallelFor(lists.num_lists(), 16, [&](int64_t begin, int64_t end) {
    for (int64_t list = begin; list < end; ++list) {
      errors[list] = FillList(vectors, lists.documents(list), list);
    }
  });
  for (float error : errors) {
    max_error_fourth_powers_ = std::max(max_error_fourth_powers_, error);
  }
}

const uint8_t* ByteLists::tiles(int64_t list) const {
  return tiles_.data() + first_tile_[list] * kTileVectors * padded_d_;
}

const float* ByteLists::scales(int64_t list) const {
  return scales_.data() + first_tile_[list] * kTileVectors;
}

float ByteLists::FillList(const DocumentVectors& vectors, std::span<const uint32_t> documents,
                          int64_t list) {
  float max_error = 0;
  std::vector<int8_t> bytes(padded_d_);
  for (size_t i = 0; i < documents.size(); ++i) {
    const ByteVector rounded = RoundToBytes(vectors.row(documents[i]), vectors.d, bytes.data());
    max_error = std::max(max_error, rounded.error_fourth_powers);
    const int64_t slot = first_tile_[list] * kTileVectors + static_cast<int64_t>(i);
    scales_[slot] = rounded.scale;
    uint8_t* tile = tiles_.data() + slot / kTileVectors * kTileVectors * padded_d_;
    for (int64_t at = 0; at < padded_d_; ++at) {
      tile[at / 4 * 4 * kTileVectors + slot % kTileVectors * 4 + at % 4] =
          static_cast<uint8_t>(bytes[at] + 128);
    }
  }
  return max_error;
}

}  // namespace braid
