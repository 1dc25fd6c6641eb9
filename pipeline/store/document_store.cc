#include "pipeline/store/document_store.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

absl::Status Mismatched(const std::filesystem::path& file, std::string_view what) {
  return absl::DataLossError(absl::StrCat(file.string(), ": ", std::string(what),
                                          "; remove the directory and run the job again"));
}

absl::Status CheckOffsets(std::span<const int64_t> offsets, size_t num_rows, size_t num_bytes,
                          const std::filesystem::path& file) {
  if (offsets.size() != num_rows + 1) {
    return Mismatched(file,
                      absl::StrCat("got ", offsets.size(), " offsets, expected ", num_rows + 1));
  }
  if (offsets.front() != 0 || offsets.back() != static_cast<int64_t>(num_bytes) ||
      !std::is_sorted(offsets.begin(), offsets.end())) {
    return Mismatched(file, absl::StrCat("expected offsets that ascend from 0 to ", num_bytes));
  }
  return absl::OkStatus();
}

std::string_view Slice(const MappedFile& file, const NpyArray<int64_t>& offsets, int64_t i) {
  const auto begin = static_cast<size_t>(offsets.values()[static_cast<size_t>(i)]);
  const auto end = static_cast<size_t>(offsets.values()[static_cast<size_t>(i) + 1]);
  return file.bytes().substr(begin, end - begin);
}

absl::StatusOr<std::vector<std::string>> ReadNames(const std::filesystem::path& path) {
  ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const auto is_string = [](const nlohmann::json& name) { return name.is_string(); };
  if (!json.is_array() || !std::all_of(json.begin(), json.end(), is_string)) {
    return Mismatched(path, "expected a list of names");
  }
  return json.get<std::vector<std::string>>();
}

}  // namespace

absl::StatusOr<StringColumnWriter> StringColumnWriter::Resume(const std::filesystem::path& strings,
                                                              const std::filesystem::path& offsets,
                                                              const DurablePrefixes& synced) {
  ASSIGN_OR_RETURN(auto file, AtomicFile::Resume(strings, synced));
  ASSIGN_OR_RETURN(auto array, NpyWriter<int64_t>::Resume(offsets, {}, synced));
  const int64_t first = 0;
  // A file that is continued begins with this offset already.
  if (synced.empty()) RETURN_IF_ERROR(array.AppendRows({&first, 1}));
  return StringColumnWriter(std::move(file), std::move(array));
}

absl::Status StringColumnWriter::Sync(DurablePrefixes* synced) {
  RETURN_IF_ERROR(strings_->Sync(synced));
  return offsets_.Sync(synced);
}

absl::Status StringColumnWriter::Append(std::string_view value) {
  RETURN_IF_ERROR(strings_->Append(value));
  const int64_t end = strings_->size();
  return offsets_.AppendRows({&end, 1});
}

absl::Status StringColumnWriter::Commit(StageWriter* stage) {
  const int64_t num_strings = offsets_.num_rows() - 1;
  ASSIGN_OR_RETURN(const FileSummary strings, strings_->Commit());
  stage->Add(strings, num_strings);
  ASSIGN_OR_RETURN(const FileSummary offsets, offsets_.Commit());
  stage->Add(offsets, num_strings + 1);
  return absl::OkStatus();
}

absl::StatusOr<DocumentStoreWriter> DocumentStoreWriter::Resume(
    const std::filesystem::path& directory, const ResumePoint& point) {
  ASSIGN_OR_RETURN(StringColumnWriter texts,
                   StringColumnWriter::Resume(directory / "texts.bin",
                                              directory / "text_offsets.npy", point.files));
  ASSIGN_OR_RETURN(
      StringColumnWriter ids,
      StringColumnWriter::Resume(directory / "ids.bin", directory / "id_offsets.npy", point.files));
  ASSIGN_OR_RETURN(auto domains, AtomicFile::Resume(directory / "domain_numbers", point.files));
  DocumentStoreWriter writer(std::move(texts), std::move(ids), std::move(domains));
  if (!point.files.empty())
    RETURN_IF_ERROR(writer.ReadDomains(point.state.value("domains", nlohmann::json::array())));
  return writer;
}

absl::Status DocumentStoreWriter::ReadDomains(const nlohmann::json& names) {
  ASSIGN_OR_RETURN(const std::string bytes, synced_domains_->ReadBack());
  domains_.resize(bytes.size() / sizeof(int32_t));
  if (!domains_.empty()) {
    std::memcpy(domains_.data(), bytes.data(), domains_.size() * sizeof(int32_t));
  }
  for (const auto& name : names) {
    domain_numbers_.emplace(name.get<std::string>(), static_cast<int32_t>(domain_numbers_.size()));
  }
  const auto unknown = [&](int32_t domain) {
    return domain < 0 || domain >= static_cast<int32_t>(domain_numbers_.size());
  };
  if (!std::ranges::any_of(domains_, unknown)) return absl::OkStatus();
  return Unresumable(synced_domains_->path(), "it has unknown domain numbers");
}

absl::Status DocumentStoreWriter::Sync(ResumePoint* point) {
  RETURN_IF_ERROR(texts_.Sync(&point->files));
  RETURN_IF_ERROR(ids_.Sync(&point->files));
  const auto num_synced = static_cast<size_t>(synced_domains_->size()) / sizeof(int32_t);
  const auto rest = std::span<const int32_t>(domains_).subspan(num_synced);
  RETURN_IF_ERROR(
      synced_domains_->Append({reinterpret_cast<const char*>(rest.data()), rest.size_bytes()}));
  RETURN_IF_ERROR(synced_domains_->Sync(&point->files));
  std::vector<std::string> names(domain_numbers_.size());
  for (const auto& [name, number] : domain_numbers_) names[static_cast<size_t>(number)] = name;
  point->state["domains"] = names;
  return absl::OkStatus();
}

absl::Status DocumentStoreWriter::Add(std::string_view id, std::string_view text,
                                      std::string_view domain) {
  RETURN_IF_ERROR(texts_.Append(text));
  RETURN_IF_ERROR(ids_.Append(id));
  auto found = domain_numbers_.find(domain);
  if (found == domain_numbers_.end()) {
    const auto number = static_cast<int32_t>(domain_numbers_.size());
    found = domain_numbers_.emplace(std::string(domain), number).first;
  }
  domains_.push_back(found->second);
  return absl::OkStatus();
}

absl::Status DocumentStoreWriter::Commit(StageWriter* stage) {
  RETURN_IF_ERROR(texts_.Commit(stage));
  RETURN_IF_ERROR(ids_.Commit(stage));
  // All names are known only now, so they are sorted and the numbers of the domains converted here.
  std::vector<std::string> names;
  std::vector<int32_t> rank(domain_numbers_.size());
  for (const auto& [name, number] : domain_numbers_) {
    rank[static_cast<size_t>(number)] = static_cast<int32_t>(names.size());
    names.push_back(name);
  }
  for (int32_t& domain : domains_) domain = rank[static_cast<size_t>(domain)];
  RETURN_IF_ERROR(stage->AddArray<int32_t>("domains.npy", domains_));
  return stage->AddText("domains.json", nlohmann::json(names).dump(2) + "\n",
                        static_cast<int64_t>(names.size()));
}

DocumentStore::DocumentStore(MappedFile texts, NpyArray<int64_t> text_offsets, MappedFile ids,
                             NpyArray<int64_t> id_offsets, NpyArray<int32_t> domains,
                             std::vector<std::string> domain_names)
    : texts_(std::move(texts)),
      text_offsets_(std::move(text_offsets)),
      ids_(std::move(ids)),
      id_offsets_(std::move(id_offsets)),
      domains_(std::move(domains)),
      domain_names_(std::move(domain_names)) {}

absl::StatusOr<DocumentStore> DocumentStore::Open(const std::filesystem::path& directory) {
  ASSIGN_OR_RETURN(MappedFile texts, MappedFile::Open(directory / "texts.bin"));
  ASSIGN_OR_RETURN(auto text_offsets, NpyArray<int64_t>::Open(directory / "text_offsets.npy"));
  ASSIGN_OR_RETURN(MappedFile ids, MappedFile::Open(directory / "ids.bin"));
  ASSIGN_OR_RETURN(auto id_offsets, NpyArray<int64_t>::Open(directory / "id_offsets.npy"));
  ASSIGN_OR_RETURN(auto domains, NpyArray<int32_t>::Open(directory / "domains.npy"));
  ASSIGN_OR_RETURN(auto names, ReadNames(directory / "domains.json"));
  DocumentStore store(std::move(texts), std::move(text_offsets), std::move(ids),
                      std::move(id_offsets), std::move(domains), std::move(names));
  RETURN_IF_ERROR(store.Validate(directory));
  return store;
}

absl::Status DocumentStore::Validate(const std::filesystem::path& directory) const {
  const auto num_rows = static_cast<size_t>(size());
  RETURN_IF_ERROR(CheckOffsets(text_offsets_.values(), num_rows, texts_.bytes().size(),
                               directory / "text_offsets.npy"));
  RETURN_IF_ERROR(CheckOffsets(id_offsets_.values(), num_rows, ids_.bytes().size(),
                               directory / "id_offsets.npy"));
  for (const int32_t domain : domains_.values()) {
    if (domain < 0 || domain >= static_cast<int32_t>(domain_names_.size())) {
      return Mismatched(
          directory / "domains.npy",
          absl::StrCat("got domain ", domain, ", expected less than ", domain_names_.size()));
    }
  }
  return absl::OkStatus();
}

int64_t DocumentStore::ChunkEnd(int64_t begin, int64_t max_bytes, int64_t max_documents) const {
  const std::span<const int64_t> offsets = text_offsets_.values();
  const int64_t limit = offsets[static_cast<size_t>(begin)] + max_bytes;
  const auto past = std::upper_bound(offsets.begin() + begin, offsets.end(), limit);
  const int64_t end = past - offsets.begin() - 1;
  return std::min({std::max(end, begin + 1), begin + max_documents, size()});
}

int64_t DocumentStore::ChunksEnd(int64_t begin, int64_t max_bytes, int64_t chunk_documents,
                                 int64_t max_documents) const {
  int64_t end = begin;
  bool is_whole = true;
  while (is_whole && end < size() && end - begin < max_documents) {
    const int64_t chunk = end;
    end = ChunkEnd(chunk, max_bytes, chunk_documents);
    is_whole = end - chunk == chunk_documents;
  }
  return end;
}

std::vector<std::string_view> DocumentStore::Texts(int64_t begin, int64_t end) const {
  std::vector<std::string_view> texts;
  texts.reserve(static_cast<size_t>(end - begin));
  for (int64_t i = begin; i < end; ++i) texts.push_back(text(i));
  return texts;
}

std::vector<std::string_view> DocumentStore::Texts(std::span<const uint32_t> numbers) const {
  std::vector<std::string_view> texts;
  texts.reserve(numbers.size());
  for (const uint32_t i : numbers) texts.push_back(text(i));
  return texts;
}

std::string_view DocumentStore::text(int64_t i) const { return Slice(texts_, text_offsets_, i); }

std::string_view DocumentStore::id(int64_t i) const { return Slice(ids_, id_offsets_, i); }

StagePosition DocumentPosition(const DocumentStore& documents, int64_t begin, int64_t chunk_bytes) {
  const int64_t num_chunks =
      std::max<int64_t>(1, (documents.num_text_bytes() + chunk_bytes - 1) / chunk_bytes);
  return {.done = begin,
          .total = documents.size(),
          .chunk = std::min(documents.TextBytes(0, begin) / chunk_bytes + 1, num_chunks),
          .num_chunks = num_chunks};
}

}  // namespace braid
