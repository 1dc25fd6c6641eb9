// Compares, forward and backward, the time of the CPU kernels for the same query heads: attention
// of grouped queries with that of full heads, and within documents with that over the sequence.
//
//   braid-bench-attention [--length 1024] [--heads 8] [--width 64] [--group 4] [--documents 8]
//                         [--threads 2]
//
// The kinds alternate, 15 times each. Prints one JSON line with the median seconds of each and the
// ratios of the medians.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <iostream>
#include <random>
#include <vector>

#include "base/blas_core.h"
#include "model/kernels/fused_attention.h"

namespace braid {
namespace {

constexpr int kRepeats = 15;

struct AttentionArrays {
  explicit AttentionArrays(const AttentionShape& attention) : shape(attention) {
    const auto tokens = static_cast<size_t>(shape.batch * shape.length);
    const auto width = static_cast<size_t>(shape.heads.query_width());
    std::mt19937 random(1);
    qkv.resize(tokens * static_cast<size_t>(shape.heads.qkv_width()));
    for (float& value : qkv) value = static_cast<float>(random()) * 0x1p-31f - 1;
    dqkv.resize(qkv.size());
    out.resize(tokens * width);
    dout.assign(tokens * width, 0.5f);
    log_sums.resize(tokens * static_cast<size_t>(shape.heads.query));
    table.assign(tokens * static_cast<size_t>(shape.heads.width) / 2, 0.7f);
  }

  double Seconds(int threads) {
    const RotaryTables tables{table.data(), table.data(), table.data(), table.data()};
    const auto start = std::chrono::steady_clock::now();
    FusedAttentionForward(shape, tables, qkv.data(), out.data(), log_sums.data(), threads);
    FusedAttentionBackward(shape, tables, qkv.data(), out.data(), log_sums.data(), dout.data(),
                           dqkv.data(), threads);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

  AttentionShape shape;
  std::vector<float> qkv, dqkv, out, dout, log_sums, table;
};

double MedianOf(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

// [L]: where the documents of equal lengths begin, for each position.
std::vector<int32_t> DocumentStarts(int64_t length, int64_t documents) {
  std::vector<int32_t> starts(length);
  for (int64_t t = 0; t < length; ++t) {
    starts[t] = static_cast<int32_t>(t * documents / length * length / documents);
  }
  return starts;
}

void Compare(const AttentionShape& full, int64_t group, int64_t documents, int threads) {
  const std::vector<int32_t> starts = DocumentStarts(full.length, documents);
  AttentionShape grouped = full, masked = full;
  grouped.heads.key_value = full.heads.query / group;
  masked.first_visible = starts.data();
  AttentionArrays of_full(full), of_grouped(grouped), of_documents(masked);
  std::vector<double> full_seconds, grouped_seconds, document_seconds;
  for (int i = 0; i < kRepeats; ++i) {
    full_seconds.push_back(of_full.Seconds(threads));
    grouped_seconds.push_back(of_grouped.Seconds(threads));
    document_seconds.push_back(of_documents.Seconds(threads));
  }
  const double a = MedianOf(full_seconds), b = MedianOf(grouped_seconds),
               c = MedianOf(document_seconds);
  std::cout << "{\"full_seconds\":" << a << ",\"grouped_seconds\":" << b << ",\"ratio\":" << b / a
            << ",\"document_seconds\":" << c << ",\"document_ratio\":" << c / a << "}" << std::endl;
}

}  // namespace
}  // namespace braid

int main(int argc, char** argv) {
  braid::ReexecForBlas(argv);
  int64_t length = 1024, heads = 8, width = 64, group = 4, documents = 8;
  int threads = 2;
  CLI::App app("Compare grouped-query attention with full heads");
  app.add_option("--length", length, "Tokens of a sequence")->capture_default_str();
  app.add_option("--heads", heads, "Query heads")->capture_default_str();
  app.add_option("--width", width, "Width of a head")->capture_default_str();
  app.add_option("--group", group, "Query heads per key head")->capture_default_str();
  app.add_option("--documents", documents, "Documents of a sequence")->capture_default_str();
  app.add_option("--threads", threads, "Threads")->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  if (!braid::HasFusedAttention() || group < 1 || heads % group != 0 || documents < 1 ||
      documents > length) {
    std::cerr << "needs LIBXSMM, a group that divides the heads, and documents of a token or more"
              << std::endl;
    return 1;
  }
  braid::Compare({1, length, {heads, heads, width}}, group, documents, threads);
  return 0;
}
