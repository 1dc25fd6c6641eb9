// Seeded random samples of documents.
#ifndef BRAID_RETRIEVAL_DOCUMENT_SAMPLE_H_
#define BRAID_RETRIEVAL_DOCUMENT_SAMPLE_H_

#include <cstdint>
#include <vector>

namespace braid {

// Returns min(count, n) different numbers below n, ascending; all choices are equally likely.
// Floyd's algorithm: time and memory O(count log count) for every n. Requires 0 <= n <= 2^32.
std::vector<uint32_t> SampleDocuments(int64_t n, int64_t count, uint64_t seed);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_DOCUMENT_SAMPLE_H_
