// Measures the constants of the formulas of docs/scale.md on this machine, for
// `braid doctor --bench`.
#ifndef BRAID_CLI_PIPELINE_BENCH_H_
#define BRAID_CLI_PIPELINE_BENCH_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "cli/finding.h"
#include "cli/stage_bench.h"

namespace braid {

// A corpus of made-up text.
struct BenchSizes {
  int64_t documents = 32'768;
  int32_t dimension = 256;
  int32_t text_bytes = 1200;  // per document
  int num_threads = 0;        // 0: all cores
};

// Seconds of wall time of the pipeline and the speed of matrix products.
struct PipelineRates {
  double embed = 0;               // per byte of text, hashing embedder
  double neighbors_document = 0;  // per document: index, recall sample and fixed costs of a query
  double neighbors_product = 0;   // per component of two vectors that are compared
  double order = 0;               // per document: the walk, at k = 20; 0: not known
  double product_gflops = 0;      // single-precision products of square matrices; 0: not known
  StageRates stages = {};         // the other stages
};

// The constants that docs/scale.md states, measured on the two cores of docs/performance.md.
inline constexpr PipelineRates kStatedRates = {
    .embed = 30e-9,
    .neighbors_document = 83e-6,
    .neighbors_product = 3.54e-12,
    .stages = {.tokenize = 15e-9, .tokenizer_training = 4.8, .heldout = 14e-9, .pack = 12e-9}};

// Returns the rate of single-precision products of square matrices with all cores, in 1e9 FLOP/s:
// the best of three. Takes less than a second.
double MeasureProductGflops();

// Embeds made-up documents, searches their neighbors through IVF,Flat with few and with all lists
// and orders them, then measures the other stages on some of them (stage_bench.h). Uses fewer
// documents than most.documents on slow machines and for many dimensions, to take about 12 s on two
// idle cores. Requires at least 1,000 documents. Cancelled after Ctrl-C if the program catches it.
absl::StatusOr<PipelineRates> MeasurePipeline(const BenchSizes& most);

// A corpus to forecast: N documents of B bytes and T tokens with vectors of d dimensions, the share
// P / L of lists that a search visits, and the share of text that is held out.
struct ForecastCorpus {
  double documents = 1e6;
  double text_bytes = 1200;
  double tokens = 400;
  double dimension = 256;
  double searched_share = 0.46;  // measured with hashed vectors, docs/scale.md
  double heldout_share = 0.03;
};

// Returns embed * N B.
double EmbedSeconds(const PipelineRates& rates, const ForecastCorpus& corpus);
// Returns neighbors_document * N + neighbors_product * d N^2 P / L.
double NeighborSeconds(const PipelineRates& rates, const ForecastCorpus& corpus);

// Returns tokenize * N B.
double TokenizeSeconds(const PipelineRates& rates, const ForecastCorpus& corpus);
// Returns heldout * N B per started 32 MiB of held-out text.
double HeldoutSeconds(const PipelineRates& rates, const ForecastCorpus& corpus);
// Returns pack * N T.
double PackSeconds(const PipelineRates& rates, const ForecastCorpus& corpus);

// Returns a finding per formula: the constants measured here and those of docs/scale.md, with what
// each forecasts for `corpus`.
Findings DescribeRates(const PipelineRates& rates, const ForecastCorpus& corpus);

}  // namespace braid

#endif  // BRAID_CLI_PIPELINE_BENCH_H_
