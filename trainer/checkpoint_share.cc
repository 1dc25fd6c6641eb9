#include "trainer/checkpoint_share.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/atomic_file.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "formats/safetensors.h"
#include "nlohmann/json.hpp"

namespace braid {
namespace {

namespace fs = std::filesystem;

// Bytes written between two checks of the stop token.
constexpr size_t kPieceBytes = 4 << 20;

struct NamedValues {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;
};

absl::Status WriteInPieces(const NamedValues& array, const std::stop_token& stop,
                           SafetensorsWriter* writer) {
  std::string_view bytes = AsBytes(array.values);
  while (!bytes.empty()) {
    if (stop.stop_requested()) return absl::CancelledError("the run ended");
    const size_t size = std::min(bytes.size(), kPieceBytes);
    RETURN_IF_ERROR(writer->Write(array.name, bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return absl::OkStatus();
}

absl::StatusOr<ManifestEntry> WriteArrays(const fs::path& path,
                                          const std::vector<NamedValues>& arrays,
                                          std::map<std::string, std::string> metadata,
                                          const std::stop_token& stop) {
  if (stop.stop_requested()) return absl::CancelledError("the run ended");
  std::vector<TensorInfo> layout;
  for (const NamedValues& a : arrays) layout.push_back({a.name, DType::kF32, a.shape});
  ASSIGN_OR_RETURN(auto writer, SafetensorsWriter::Create(path, layout, std::move(metadata)));
  for (const NamedValues& a : arrays) RETURN_IF_ERROR(WriteInPieces(a, stop, writer.get()));
  ASSIGN_OR_RETURN(const FileSummary summary, writer->Commit());
  return MakeManifestEntry(summary, static_cast<int64_t>(arrays.size()));
}

}  // namespace

std::vector<int> DivideTensors(std::span<const CheckpointTensor> tensors, int world_size) {
  std::vector<size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0);
  // Every rank computes the whole assignment, so the order of equal sizes must not be left open.
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return tensors[a].value.size() > tensors[b].value.size();
  });
  std::vector<int> ranks(tensors.size());
  std::vector<size_t> load(world_size);
  for (size_t i : order) {
    const auto least = std::min_element(load.begin(), load.end());
    *least += tensors[i].value.size();
    ranks[i] = static_cast<int>(least - load.begin());
  }
  return ranks;
}

// The only part of a checkpoint for which training waits, so it copies memory and does nothing
// else. All buffers are kept between checkpoints: assign() then neither allocates nor touches fresh
// pages.
void CheckpointShare::Copy(const CheckpointSource& source) {
  state_ = source.state;
  state_.world_size = world_size_;
  layout_ = LayoutFingerprint(source.weights);
  std::vector<CheckpointTensor> stored = source.weights;
  stored.insert(stored.end(), source.constants.begin(), source.constants.end());
  CopyWeights(stored);
  // A rank that holds all moments (REPLICATED) also stores only its shard: no moment is stored
  // twice, and a run can be resumed with the other sharding.
  range_ = ShardOf(NumElements(source.weights), rank_, world_size_);
  const CheckpointMoments& held = source.moments;
  BRAID_CHECK(held.range.begin <= range_.begin && range_.end <= held.range.end)
      << held.range.begin << " " << held.range.end << " of rank " << rank_;
  const size_t at = range_.begin - held.range.begin;
  const std::span m = held.m.subspan(at, range_.size()), v = held.v.subspan(at, range_.size());
  m_.assign(m.begin(), m.end());
  v_.assign(v.begin(), v.end());
  state_.has_average = !held.average.empty();
  average_.clear();
  if (!state_.has_average) return;
  const std::span average = held.average.subspan(at, range_.size());
  average_.assign(average.begin(), average.end());
}

void CheckpointShare::CopyWeights(std::span<const CheckpointTensor> tensors) {
  const std::vector<int> ranks = DivideTensors(tensors, world_size_);
  weights_.resize(tensors.size());
  for (size_t i = 0; i < tensors.size(); ++i) {
    const CheckpointTensor& from = tensors[i];
    Weight& to = weights_[i];
    to.name = from.name;
    to.shape = from.shape;
    to.size = from.value.size();
    to.rank = ranks[i];
    if (to.rank == rank_) {
      to.values.assign(from.value.begin(), from.value.end());
    } else {
      to.values = {};  // Upcycling changes the tensors, and with them their assignment to ranks.
    }
  }
}

absl::StatusOr<ManifestEntry> CheckpointShare::WriteWeights(const fs::path& staging,
                                                            const std::stop_token& stop) const {
  std::vector<NamedValues> arrays;
  for (const Weight& w : weights_) {
    if (w.rank == rank_) arrays.push_back({w.name, w.shape, w.values});
  }
  return WriteArrays(staging / ModelFileName(rank_, world_size_), arrays,
                     {{"step", absl::StrCat(state_.step)}}, stop);
}

absl::StatusOr<ManifestEntry> CheckpointShare::WriteMoments(const fs::path& staging,
                                                            const std::stop_token& stop) const {
  const std::vector<int64_t> shape = {static_cast<int64_t>(range_.size())};
  std::map<std::string, std::string> metadata = MomentsMetadata(range_, layout_);
  metadata["step"] = absl::StrCat(state_.step);
  std::vector<NamedValues> arrays = {{"m", shape, m_}, {"v", shape, v_}};
  if (state_.has_average) arrays.push_back({kAverageTensor, shape, average_});
  return WriteArrays(staging / OptimizerFileName(rank_, world_size_), arrays, std::move(metadata),
                     stop);
}

absl::StatusOr<std::vector<ManifestEntry>> CheckpointShare::Write(
    const fs::path& staging, const std::stop_token& stop) const {
  ASSIGN_OR_RETURN(const ManifestEntry weights, WriteWeights(staging, stop));
  ASSIGN_OR_RETURN(const ManifestEntry moments, WriteMoments(staging, stop));
  return std::vector<ManifestEntry>{weights, moments};
}

// Returns the index file that Hugging Face expects beside sharded models.
std::string CheckpointShare::IndexText() const {
  nlohmann::json files = nlohmann::json::object();
  int64_t total = 0;
  for (const Weight& w : weights_) {
    files[w.name] = ModelFileName(w.rank, world_size_);
    total += static_cast<int64_t>(w.size * sizeof(float));
  }
  const nlohmann::json index = {{"metadata", {{"total_size", total}}},
                                {"weight_map", std::move(files)}};
  return index.dump(2) + "\n";
}

absl::StatusOr<std::vector<ManifestEntry>> CheckpointShare::WriteCommon(
    const fs::path& staging, const fs::path& tokenizer) const {
  std::vector<std::pair<const char*, std::string>> texts;
  if (world_size_ > 1) texts.emplace_back(kIndexFile, IndexText());
  texts.emplace_back(kStateFile, StateText(state_));
  texts.emplace_back(kConfigFile, ConfigText(state_.model));
  if (state_.partial.has_finetuning()) {
    texts.emplace_back(kFinetuningFile, ConfigText(StoredPartial(state_.partial, staging)));
  }
  ASSIGN_OR_RETURN(texts.emplace_back(kTokenizerFile, "").second, ReadFile(tokenizer));
  std::vector<ManifestEntry> entries;
  for (const auto& [name, text] : texts) {
    ASSIGN_OR_RETURN(entries.emplace_back(), WriteFileForManifest(staging / name, text, 1));
  }
  return entries;
}

}  // namespace braid
