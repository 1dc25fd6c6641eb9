#include "formats/packed_dataset.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/strict_json.h"
#include "formats/manifest.h"
#include "formats/supervised_spans.h"

namespace braid {
namespace {

// The kind that the manifest of a packed dataset has: the name of the stage that writes it.
constexpr char kPackedDatasetKind[] = "pack";
constexpr std::array<std::string_view, 3> kOrders = {"SIMILARITY", "RANDOM", "SOURCE"};
constexpr int64_t kInt32Max = std::numeric_limits<int32_t>::max();
constexpr int64_t kInt64Max = std::numeric_limits<int64_t>::max();
constexpr int kDatasetInfoDepth = 2;  // an object that holds arrays of strings
constexpr size_t kMaxQuotedBytes = 100;
// The version of supervised datasets without labels.
constexpr int64_t kUnlabeledVersion = 2;

absl::Status BadDatasetField(const std::filesystem::path& path, const std::string& field,
                             const std::string& got, const std::string& expected) {
  return absl::InvalidArgumentError(absl::StrCat(path.string(), ": ", field, ": got ", got,
                                                 ", expected ", expected,
                                                 "; submit the corpus again: its other stages are "
                                                 "reused, so that only packing is repeated"));
}

// Returns the JSON text of a value in ASCII, shortened to kMaxQuotedBytes.
std::string QuotedJson(const nlohmann::json& value) {
  using Json = nlohmann::json;
  std::string text = value.dump(-1, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
  if (text.size() > kMaxQuotedBytes) text = text.substr(0, kMaxQuotedBytes) + "...";
  return text;
}

// Takes typed fields from a JSON object. The first bad field becomes status(); every later call
// returns a placeholder.
class DatasetFields {
 public:
  DatasetFields(const nlohmann::json& object, const std::filesystem::path& path)
      : object_(object), path_(path) {}

  bool Has(const char* field) const { return object_.contains(field); }

  int64_t Integer(const char* field, int64_t minimum, int64_t maximum) {
    const nlohmann::json* const value = Find(field);
    // Checks first that the value fits: get<int64_t>() wraps larger ones around.
    if (value == nullptr || !value->is_number_integer() ||
        (value->is_number_unsigned() && value->get<uint64_t>() > uint64_t{kInt64Max})) {
      return Fail(field, value, "an integer"), minimum;
    }
    const auto number = value->get<int64_t>();
    if (number >= minimum && number <= maximum) return number;
    return Fail(field, value, absl::StrCat(minimum, " to ", maximum)), minimum;
  }

  uint64_t Unsigned(const char* field) {
    const nlohmann::json* const value = Find(field);
    if (value != nullptr && value->is_number_unsigned()) return value->get<uint64_t>();
    return Fail(field, value, "an integer of at least 0 and less than 2^64"), 0;
  }

  bool Flag(const char* field) {
    const nlohmann::json* const value = Find(field);
    if (value != nullptr && value->is_boolean()) return value->get<bool>();
    return Fail(field, value, "true or false"), false;
  }

  std::string Text(const char* field) {
    const nlohmann::json* const value = Find(field);
    if (value != nullptr && value->is_string()) return value->get<std::string>();
    return Fail(field, value, "a string"), "";
  }

  std::vector<std::string> Texts(const char* field) {
    const nlohmann::json* const value = Find(field);
    std::vector<std::string> texts;
    if (value == nullptr || !value->is_array()) {
      return Fail(field, value, "a list of strings"), texts;
    }
    for (const nlohmann::json& element : *value) {
      if (!element.is_string()) return Fail(field, value, "a list of strings"), texts;
      texts.push_back(element.get<std::string>());
    }
    return texts;
  }

  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* field) const {
    const auto found = object_.find(field);
    return found == object_.end() ? nullptr : &*found;
  }

  void Fail(const char* field, const nlohmann::json* value, const std::string& expected) {
    if (!status_.ok()) return;
    const std::string got = value == nullptr ? "nothing" : QuotedJson(*value);
    status_ = BadDatasetField(path_, field, got, expected);
  }

  const nlohmann::json& object_;
  const std::filesystem::path& path_;
  absl::Status status_;
};

absl::Status CheckDatasetRange(const std::filesystem::path& path, const std::string& field,
                               int64_t got, int64_t minimum, int64_t maximum) {
  if (got >= minimum && got <= maximum) return absl::OkStatus();
  return BadDatasetField(path, field, absl::StrCat(got), absl::StrCat(minimum, " to ", maximum));
}

absl::Status CheckDatasetDomains(const std::filesystem::path& path,
                                 const std::vector<std::string>& domains) {
  std::set<std::string_view> seen;
  for (const std::string& name : domains) {
    const bool is_file_name = !name.empty() && name != "." && name != ".." &&
                              name.find('/') == name.npos && name.find('\0') == name.npos;
    if (is_file_name && seen.insert(name).second) continue;
    return BadDatasetField(path, "domains", QuotedJson(name),
                           is_file_name ? "distinct names" : "names of files without '/'");
  }
  return absl::OkStatus();
}

absl::Status CheckLabelFields(const std::filesystem::path& path, const DatasetInfo& info) {
  if (!info.labeled()) return absl::OkStatus();
  if (!info.supervised) {
    return BadDatasetField(path, "supervised", "false", "true for a dataset with labels");
  }
  if (info.regression == info.classes.empty() && info.classes.size() != 1) return absl::OkStatus();
  return BadDatasetField(path, "classes", QuotedJson(info.classes),
                         "two or more names, or none with regression");
}

// Checks what the types of the fields do not guarantee.
absl::Status CheckDatasetInfo(const std::filesystem::path& path, const DatasetInfo& info) {
  if (info.key.empty()) return BadDatasetField(path, "key", "\"\"", "a string that is not empty");
  if (std::find(kOrders.begin(), kOrders.end(), info.order) == kOrders.end()) {
    return BadDatasetField(path, "order", QuotedJson(info.order), "SIMILARITY, RANDOM or SOURCE");
  }
  const auto check = [&](const char* field, int64_t got, int64_t minimum, int64_t maximum) {
    return CheckDatasetRange(path, field, got, minimum, maximum);
  };
  RETURN_IF_ERROR(check("sequence_length", info.sequence_length, 1, kInt32Max));
  RETURN_IF_ERROR(check("vocab_size", info.vocab_size, 1, kInt32Max));
  RETURN_IF_ERROR(check("eos_id", info.eos_id, 0, info.vocab_size - 1));
  RETURN_IF_ERROR(check("num_tokens", info.num_tokens, 0, kInt64Max));
  const int64_t length = info.sequence_length + 1;
  const int64_t instances = info.num_tokens / length + (info.num_tokens % length == 0 ? 0 : 1);
  if (info.num_instances != instances) {
    return BadDatasetField(
        path, "num_instances", absl::StrCat(info.num_instances),
        absl::StrCat(instances, " for ", info.num_tokens, " tokens in instances of ", length));
  }
  RETURN_IF_ERROR(check("num_documents", info.num_documents, 0, kInt64Max));
  RETURN_IF_ERROR(check("num_heldout_documents", info.num_heldout_documents, 0, kInt64Max));
  RETURN_IF_ERROR(check("domain_clusters", info.domain_clusters, 0, kInt32Max));
  RETURN_IF_ERROR(check("runs_per_instance", info.runs_per_instance, 1, kInt32Max));
  RETURN_IF_ERROR(check("num_examples", info.num_examples, info.supervised ? 1 : 0,
                        info.supervised ? kInt64Max : 0));
  RETURN_IF_ERROR(CheckLabelFields(path, info));
  return CheckDatasetDomains(path, info.domains);
}

absl::StatusOr<DatasetInfo> ParseDatasetInfo(const nlohmann::json& object,
                                             const std::filesystem::path& path) {
  DatasetFields fields(object, path);
  if (fields.Has("version")) {
    fields.Integer("version", 1, kDatasetInfoVersion);
    RETURN_IF_ERROR(fields.status());
  }
  DatasetInfo info;
  info.sequence_length = fields.Integer("sequence_length", 1, kInt32Max);
  info.vocab_size = static_cast<int32_t>(fields.Integer("vocab_size", 1, kInt32Max));
  info.eos_id = static_cast<int32_t>(fields.Integer("eos_id", 0, kInt32Max));
  info.num_instances = fields.Integer("num_instances", 0, kInt64Max);
  info.num_tokens = fields.Integer("num_tokens", 0, kInt64Max);
  info.num_documents = fields.Integer("num_documents", 0, kInt64Max);
  info.num_heldout_documents = fields.Integer("num_heldout_documents", 0, kInt64Max);
  info.domains = fields.Texts("domains");
  if (fields.Has("domain_clusters")) {
    info.domain_clusters = static_cast<int32_t>(fields.Integer("domain_clusters", 0, kInt32Max));
  }
  if (fields.Has("begin_with_bos")) {
    info.begin_with_bos = fields.Integer("begin_with_bos", 0, 1) == 1;
  }
  if (fields.Has("runs_per_instance")) {
    info.runs_per_instance =
        static_cast<int32_t>(fields.Integer("runs_per_instance", 1, kInt32Max));
  }
  if (fields.Has("supervised")) info.supervised = fields.Flag("supervised");
  if (fields.Has("num_examples")) {
    info.num_examples = fields.Integer("num_examples", 0, kInt64Max);
  }
  if (fields.Has("classes")) info.classes = fields.Texts("classes");
  if (fields.Has("regression")) info.regression = fields.Flag("regression");
  info.order = fields.Text("order");
  info.name = fields.Text("name");
  info.key = fields.Text("key");
  info.seed = fields.Unsigned("seed");
  RETURN_IF_ERROR(fields.status());
  RETURN_IF_ERROR(CheckDatasetInfo(path, info));
  return info;
}

}  // namespace

absl::StatusOr<FileSummary> WriteDatasetInfo(const std::filesystem::path& dataset_dir,
                                             const DatasetInfo& info) {
  const std::filesystem::path path = dataset_dir / kDatasetInfoName;
  RETURN_IF_ERROR(CheckDatasetInfo(path, info));
  nlohmann::json object = {
      {"name", info.name},
      {"key", info.key},
      {"order", info.order},
      {"sequence_length", info.sequence_length},
      {"vocab_size", info.vocab_size},
      {"eos_id", info.eos_id},
      {"num_instances", info.num_instances},
      {"num_tokens", info.num_tokens},
      {"num_documents", info.num_documents},
      {"num_heldout_documents", info.num_heldout_documents},
      {"domains", info.domains},
      {"domain_clusters", info.domain_clusters},
      {"seed", info.seed},
  };
  // Datasets with the default values keep the bytes that earlier versions wrote.
  if (info.begin_with_bos) object["begin_with_bos"] = 1;
  if (info.runs_per_instance > 1) object["runs_per_instance"] = info.runs_per_instance;
  if (info.supervised) {
    object["version"] = info.labeled() ? kDatasetInfoVersion : kUnlabeledVersion;
    object["supervised"] = true;
    object["num_examples"] = info.num_examples;
  }
  if (!info.classes.empty()) object["classes"] = info.classes;
  if (info.regression) object["regression"] = true;
  ASSIGN_OR_RETURN(const auto file, AtomicFile::Create(path));
  RETURN_IF_ERROR(
      file->Append(object.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"));
  return file->Commit();
}

absl::StatusOr<DatasetInfo> ReadDatasetInfo(const std::filesystem::path& dataset_dir) {
  const std::filesystem::path path = dataset_dir / kDatasetInfoName;
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(
        absl::StrCat(dataset_dir.string(), " is not a packed dataset: it has no ", kDatasetInfoName,
                     "; give the dataset_dir that the corpus job reports"));
  }
  RETURN_IF_ERROR(text.status());
  const absl::StatusOr<nlohmann::json> object = ParseStrictJson(*text, kDatasetInfoDepth);
  if (object.ok() && object->is_object()) return ParseDatasetInfo(*object, path);
  const std::string fault = object.ok() ? "got " + QuotedJson(*object) + ", expected a JSON object"
                                        : std::string(object.status().message());
  return absl::DataLossError(absl::StrCat(path.string(), " is damaged: ", fault,
                                          "; submit the corpus again to rebuild it"));
}

absl::Status VerifyDataset(const std::filesystem::path& dataset_dir) {
  const std::string manifest_path = (dataset_dir / kManifestName).string();
  const absl::StatusOr<Manifest> manifest = Manifest::Load(dataset_dir);
  if (absl::IsNotFound(manifest.status())) {
    return absl::NotFoundError(absl::StrCat(
        dataset_dir.string(), " has no ", kManifestName,
        ", so the dataset cannot be verified; copy the dataset_dir of the corpus job again"));
  }
  RETURN_IF_ERROR(manifest.status());
  RETURN_IF_ERROR(manifest->VerifyAll(dataset_dir));
  ASSIGN_OR_RETURN(const DatasetInfo info, ReadDatasetInfo(dataset_dir));
  for (const char* name : {kDatasetInfoName, "instances.bin", "instances.idx", "tokenizer.model"}) {
    if (manifest->Find(name) != nullptr) continue;
    return absl::DataLossError(absl::StrCat(manifest_path, ": got no entry for ", name,
                                            ", expected the manifest of a packed dataset"));
  }
  if (info.supervised && manifest->Find(kSpansName) == nullptr) {
    return absl::DataLossError(absl::StrCat(manifest_path, ": got no entry for ", kSpansName,
                                            ", expected the manifest of a supervised dataset"));
  }
  if (info.labeled() && manifest->Find(kLabelsName) == nullptr) {
    return absl::DataLossError(absl::StrCat(manifest_path, ": got no entry for ", kLabelsName,
                                            ", expected the manifest of a dataset with labels"));
  }
  if (manifest->kind == kPackedDatasetKind && manifest->key == info.key) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(manifest_path, ": got ", manifest->kind, " ",
                                          manifest->key, ", expected ", kPackedDatasetKind, " ",
                                          info.key, " as in ", kDatasetInfoName));
}

}  // namespace braid
