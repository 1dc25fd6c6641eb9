#include "pipeline/corpus/machine_corpus.h"

#include <xxhash.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "pipeline/corpus/document_splitter.h"
#include "pipeline/corpus/machine_text.h"

namespace braid {
namespace {

constexpr size_t kMaxFileTextBytes = size_t{64} << 10;
constexpr size_t kMinTextBytes = 200;
constexpr std::string_view kWhiteSpace = " \t\r\n\v\f";

uint64_t Hash(std::string_view text, uint64_t seed) {
  return XXH3_64bits_withSeed(text.data(), text.size(), seed);
}

int64_t Share(int64_t bytes, double share) {
  return static_cast<int64_t>(static_cast<double>(bytes) * share);
}

// The documents of one file that are taken.
struct TakenFile {
  std::string path;
  std::string domain;
  std::vector<std::string> documents;
  int64_t num_bytes = 0;
};

// The greatest level such that domains cut to it have at most `target` bytes together.
int64_t FairLevel(const std::map<std::string, int64_t>& bytes, int64_t target) {
  std::vector<int64_t> sizes;
  for (const auto& [domain, size] : bytes) sizes.push_back(size);
  std::ranges::sort(sizes);
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t level = target / static_cast<int64_t>(sizes.size() - i);
    if (sizes[i] > level) return level;
    target -= sizes[i];
  }
  return sizes.empty() ? 0 : sizes.back();
}

// Cuts every domain to `level` bytes, dropping what was gathered last.
void CutDomains(int64_t level, std::vector<TakenFile>* files) {
  std::map<std::string, int64_t> used;
  for (TakenFile& file : *files) {
    int64_t& domain_bytes = used[file.domain];
    auto document = file.documents.begin();
    file.num_bytes = 0;
    while (document != file.documents.end()) {
      const auto size = static_cast<int64_t>(document->size());
      if (domain_bytes + size > level) break;
      domain_bytes += size;
      file.num_bytes += size;
      ++document;
    }
    file.documents.erase(document, file.documents.end());
  }
  std::erase_if(*files, [](const TakenFile& file) { return file.documents.empty(); });
}

// Fills domains up to a common limit from files in pseudo-random order.
class Gatherer {
 public:
  explicit Gatherer(const MachineCorpusOptions& options)
      : options_(options), domain_limit_(Share(options.target_bytes, options.max_domain_share)) {}

  void Add(const MachineTextFile& file) {
    // A header's domain is known only once it is read.
    const bool may_be_cpp =
        file.form == MachineTextForm::kHeader && IsWanted("cpp_headers") && !IsFull("cpp_headers");
    if ((!IsWanted(file.domain) || IsFull(file.domain)) && !may_be_cpp) return;
    const MachineText text = ReadMachineText(options_.root, file, kMaxFileTextBytes);
    if (!IsWanted(text.domain) || IsFull(text.domain)) return;
    TakenFile taken = {.path = file.path, .domain = text.domain, .documents = {}, .num_bytes = 0};
    for (const std::string& one : text.texts) AddDocuments(one, &taken);
    if (taken.documents.empty()) return;
    bytes_[taken.domain] += taken.num_bytes;
    files_.push_back(std::move(taken));
  }

  // At most target_bytes of what was added, from large and small domains alike.
  std::vector<TakenFile> Finish() {
    const int64_t least = Share(options_.target_bytes, options_.min_domain_share);
    std::erase_if(bytes_, [&](const auto& domain) { return domain.second < least; });
    std::erase_if(files_, [&](const TakenFile& file) { return !bytes_.contains(file.domain); });
    CutDomains(std::min(domain_limit_, FairLevel(bytes_, options_.target_bytes)), &files_);
    return std::move(files_);
  }

 private:
  bool IsWanted(const std::string& domain) const {
    return options_.domains.empty() ||
           std::ranges::find(options_.domains, domain) != options_.domains.end();
  }

  bool IsFull(const std::string& domain) const {
    const auto found = bytes_.find(domain);
    return found != bytes_.end() && found->second >= domain_limit_;
  }

  void AddDocuments(std::string_view text, TakenFile* taken) {
    if (text.size() < kMinTextBytes) return;
    for (const std::string_view piece : SplitDocument(text, options_.split_bytes)) {
      if (piece.find_first_not_of(kWhiteSpace) == std::string_view::npos) continue;
      if (!seen_.insert(Hash(piece, 0)).second) continue;
      taken->documents.emplace_back(piece);
      taken->num_bytes += static_cast<int64_t>(piece.size());
    }
  }

  const MachineCorpusOptions& options_;
  const int64_t domain_limit_;
  std::vector<TakenFile> files_;
  std::map<std::string, int64_t> bytes_;
  absl::flat_hash_set<uint64_t> seen_;
};

MachineCorpusSummary Summarize(const std::vector<TakenFile>& files) {
  std::map<std::string, MachineCorpusDomain> domains;
  MachineCorpusSummary summary;
  for (const TakenFile& file : files) {
    MachineCorpusDomain& domain = domains[file.domain];
    domain.name = file.domain;
    ++domain.num_files;
    domain.num_documents += static_cast<int64_t>(file.documents.size());
    domain.num_bytes += file.num_bytes;
    summary.num_documents += static_cast<int64_t>(file.documents.size());
    summary.num_bytes += file.num_bytes;
  }
  for (auto& [name, domain] : domains) summary.domains.push_back(std::move(domain));
  return summary;
}

absl::Status CheckEnough(const MachineCorpusOptions& options, const MachineCorpusSummary& summary) {
  const int64_t wanted_bytes = std::min(options.min_bytes, options.target_bytes);
  const auto num_domains = static_cast<int64_t>(summary.domains.size());
  const int64_t wanted_domains =
      options.domains.empty()
          ? options.min_domains
          : std::min(options.min_domains, static_cast<int64_t>(options.domains.size()));
  if (num_domains >= wanted_domains && summary.num_bytes >= wanted_bytes) {
    return absl::OkStatus();
  }
  std::string message = absl::StrCat(
      "machine corpus: too little text below ", options.root.string(), ": got ", num_domains,
      " domains and ", summary.num_bytes, " bytes, expected at least ", wanted_domains, " and ",
      wanted_bytes, ". Bytes found (packages that add more):");
  for (const MachineTextDomain& domain : MachineTextDomains()) {
    const auto found = std::ranges::find(summary.domains, domain.name, &MachineCorpusDomain::name);
    absl::StrAppend(&message, "\n  ", domain.name, ": ",
                    found == summary.domains.end() ? 0 : found->num_bytes, " (", domain.packages,
                    ")");
  }
  return absl::FailedPreconditionError(message);
}

absl::Status WriteFile(const TakenFile& file, AtomicFile* output) {
  for (size_t i = 0; i < file.documents.size(); ++i) {
    const bool whole = file.documents.size() == 1;
    nlohmann::ordered_json record;
    record["id"] = whole ? file.path : absl::StrCat(file.path, "#", i);
    record["text"] = file.documents[i];
    record["domain"] = file.domain;
    record["source"] = absl::StrCat("/", file.path);
    RETURN_IF_ERROR(output->Append(record.dump() + "\n"));
  }
  return absl::OkStatus();
}

absl::Status CheckDomains(const MachineCorpusOptions& options) {
  std::vector<std::string> known;
  for (const MachineTextDomain& domain : MachineTextDomains()) known.push_back(domain.name);
  for (const std::string& domain : options.domains) {
    if (std::ranges::find(known, domain) != known.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("machine corpus: got domain \"", domain,
                                                   "\", expected one of ",
                                                   absl::StrJoin(known, ", ")));
  }
  return absl::OkStatus();
}

absl::Status CheckOptions(const MachineCorpusOptions& options) {
  RETURN_IF_ERROR(CheckDomains(options));
  if (options.target_bytes > 0 && options.max_domain_share > 0 && options.max_domain_share <= 1) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "machine corpus: got target_bytes ", options.target_bytes, " and max_domain_share ",
      options.max_domain_share, ", expected a positive size and a share in (0, 1]."));
}

}  // namespace

absl::StatusOr<MachineCorpusSummary> GatherMachineCorpus(
    const MachineCorpusOptions& options, const std::filesystem::path& output_jsonl) {
  RETURN_IF_ERROR(CheckOptions(options));
  std::vector<MachineTextFile> found = FindMachineText(options.root);
  std::ranges::stable_sort(found, {},
                           [&](const auto& file) { return Hash(file.path, options.seed); });
  Gatherer gatherer(options);
  for (const MachineTextFile& file : found) gatherer.Add(file);
  std::vector<TakenFile> files = gatherer.Finish();
  const MachineCorpusSummary summary = Summarize(files);
  RETURN_IF_ERROR(CheckEnough(options, summary));

  // Another order than that of gathering, which has the small domains last.
  std::ranges::stable_sort(files, {},
                           [&](const auto& file) { return Hash(file.path, ~options.seed); });
  ASSIGN_OR_RETURN(std::unique_ptr<AtomicFile> output, AtomicFile::Create(output_jsonl));
  for (const TakenFile& file : files) RETURN_IF_ERROR(WriteFile(file, output.get()));
  RETURN_IF_ERROR(output->Commit().status());
  return summary;
}

}  // namespace braid
