#include "model/embedding_noise.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <cmath>
#include <vector>

#include "base/splitmix.h"

namespace braid {
namespace {

// Random streams of the noise in training and outside.
constexpr uint64_t kNoiseStream = 0x4E0153, kInputStream = 0x4E0154;

// Returns the number of tokens of the example of each token of a sequence.
std::vector<int64_t> ExampleLengths(const int32_t* first_visible, int64_t length) {
  std::vector<int64_t> lengths(static_cast<size_t>(length), length);
  if (first_visible == nullptr) return lengths;
  for (int64_t begin = 0, end = 0; begin < length; begin = end) {
    while (end < length && first_visible[end] == first_visible[begin]) ++end;
    for (int64_t t = begin; t < end; ++t) lengths[static_cast<size_t>(t)] = end - begin;
  }
  return lengths;
}

}  // namespace

at::Tensor EmbeddingNoise(const RoutingContext& context, const at::Tensor& first_visible,
                          at::IntArrayRef sequences, int64_t width) {
  const int64_t batch = sequences[0], length = sequences[1];
  at::Tensor noise = at::empty({batch * length, width}, at::kFloat);
  const at::Tensor visible =
      first_visible.defined() ? first_visible.to(at::kCPU).contiguous() : first_visible;
  const int32_t* const first = visible.defined() ? visible.data_ptr<int32_t>() : nullptr;
  float* const values = noise.data_ptr<float>();
  at::parallel_for(0, batch, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const uint64_t key = Mix64(SequenceKey(context, b, batch), kNoiseStream);
      const auto lengths = ExampleLengths(first == nullptr ? nullptr : first + b * length, length);
      for (int64_t i = 0; i < length * width; ++i) {
        const auto tokens = static_cast<double>(lengths[static_cast<size_t>(i / width)]);
        const double bound =
            context.embedding_noise / std::sqrt(tokens * static_cast<double>(width));
        const double unit = UnitInterval(Scramble64(key + static_cast<uint64_t>(i) * kGolden64));
        values[b * length * width + i] = static_cast<float>(bound * (2 * unit - 1));
      }
    }
  });
  return noise;
}

at::Tensor NoiseOfTokens(const InputNoise& noise, const at::Tensor& tokens,
                         const at::Tensor& positions, int64_t width) {
  const at::Tensor ids = tokens.to(at::kCPU).contiguous();
  const at::Tensor places = positions.to(at::kCPU).contiguous();
  at::Tensor result = at::empty({ids.size(0), width}, at::kFloat);
  const int64_t *id = ids.data_ptr<int64_t>(), *place = places.data_ptr<int64_t>();
  float* const values = result.data_ptr<float>();
  at::parallel_for(0, ids.size(0), 16, [&](int64_t begin, int64_t end) {
    for (int64_t t = begin; t < end; ++t) {
      // Independent of batch and sequence, so that windows, decoders and continuations of a text
      // agree.
      const uint64_t key = Mix64(Mix64(noise.seed, static_cast<uint64_t>(place[t])),
                                 Mix64(static_cast<uint64_t>(id[t]), kInputStream));
      for (int64_t i = 0; i < width; ++i) {
        const double unit = UnitInterval(Scramble64(key + static_cast<uint64_t>(i) * kGolden64));
        values[t * width + i] = static_cast<float>(noise.bound * (2 * unit - 1));
      }
    }
  });
  return result.to(tokens.device());
}

}  // namespace braid
