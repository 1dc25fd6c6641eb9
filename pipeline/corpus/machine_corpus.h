// A corpus of the text that a Debian machine already has: headers, Python and Perl sources, manual
// pages, changelogs, licences, documentation, package descriptions and CMake modules.
#ifndef BRAID_PIPELINE_CORPUS_MACHINE_CORPUS_H_
#define BRAID_PIPELINE_CORPUS_MACHINE_CORPUS_H_

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace braid {

struct MachineCorpusOptions {
  // Where to look; the paths in the corpus are relative to it.
  std::filesystem::path root = "/";
  // Bytes of text wanted.
  int64_t target_bytes = int64_t{24} << 20;
  // No domain gets a greater share of target_bytes.
  double max_domain_share = 0.30;
  // A domain with less than this share of target_bytes is left out: too little to learn or test on.
  double min_domain_share = 0.01;
  // Documents are cut to at most this many bytes by SplitDocument; 0 keeps files whole.
  int64_t split_bytes = 0;
  // Decides which files are taken where there are more than enough.
  uint64_t seed = 0;
  // Only these domains of MachineTextDomains; empty: all.
  std::vector<std::string> domains = {};
  // Fewer domains (of those asked for) or bytes than this is an error.
  int64_t min_domains = 5;
  int64_t min_bytes = 20'000'000;
};

struct MachineCorpusDomain {
  std::string name;
  // Files and documents taken, and the bytes of their text.
  int64_t num_files = 0;
  int64_t num_documents = 0;
  int64_t num_bytes = 0;
};

struct MachineCorpusSummary {
  int64_t num_documents = 0;
  int64_t num_bytes = 0;
  // In order of name; only domains with documents.
  std::vector<MachineCorpusDomain> domains;
};

// Writes JSON lines {"id", "text", "domain", "source"} atomically to `output_jsonl`, documents of
// all domains mixed. Files are taken in a seeded pseudo-random order, at most 64 KiB of each; text
// that is not UTF-8, shorter than 200 bytes or the same as an earlier document is left out. The
// same machine and options give the same bytes. FAILED_PRECONDITION when the machine has too
// little text: the message lists what was found and which packages would add more.
// INVALID_ARGUMENT for a domain that there is not.
absl::StatusOr<MachineCorpusSummary> GatherMachineCorpus(const MachineCorpusOptions& options,
                                                         const std::filesystem::path& output_jsonl);

}  // namespace braid

#endif  // BRAID_PIPELINE_CORPUS_MACHINE_CORPUS_H_
