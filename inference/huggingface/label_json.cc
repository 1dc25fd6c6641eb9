#include "inference/huggingface/label_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace braid {
namespace {

constexpr char kClassification[] = "single_label_classification";
constexpr char kRegression[] = "regression";

// Returns whether the value is the name of a class. A control character could change a terminal.
bool IsClassName(const nlohmann::json& value) {
  return value.is_string() && std::ranges::none_of(value.get<std::string>(), [](char c) {
           return absl::ascii_iscntrl(static_cast<unsigned char>(c));
         });
}

// Returns the names of the classes in the order of their ids.
std::vector<std::string> ClassNames(JsonFields* fields) {
  if (!fields->Has("id2label")) return {"LABEL_0", "LABEL_1"};
  const nlohmann::json& by_id = (*fields)["id2label"];
  std::vector<std::string> names;
  bool good = by_id.is_object() && !by_id.empty();
  for (size_t i = 0; good && i < by_id.size(); ++i) {
    const auto name = by_id.find(absl::StrCat(i));
    good = name != by_id.end() && IsClassName(*name);
    if (good) names.push_back(name->get<std::string>());
  }
  fields->Require(good, "id2label", "an object with a name for each of the ids \"0\", \"1\", ...");
  return names;
}

}  // namespace

void AddLabels(const v1::LabelHead& head, int32_t padding, nlohmann::ordered_json* json) {
  std::vector<std::string> names(head.classes().begin(), head.classes().end());
  if (head.regression()) names = {"LABEL_0"};
  nlohmann::ordered_json by_id, by_name;
  for (size_t i = 0; i < names.size(); ++i) {
    by_id[absl::StrCat(i)] = names[i];
    by_name[names[i]] = i;
  }
  (*json)["pad_token_id"] = padding;
  (*json)["id2label"] = by_id;
  (*json)["label2id"] = by_name;
  (*json)["problem_type"] = head.regression() ? kRegression : kClassification;
}

void ReadLabels(JsonFields* fields, v1::ModelConfig* config) {
  bool labels = false;
  for (const nlohmann::json& one : (*fields)["architectures"]) {
    const std::string name = one.is_string() ? one.get<std::string>() : "";
    labels = labels || absl::EndsWith(name, kLabelsArchitecture);
    fields->Require(
        !absl::StrContains(name, "For") || absl::EndsWith(name, kTokensArchitecture) ||
            absl::EndsWith(name, kLabelsArchitecture),
        "architectures",
        absl::StrCat("one that predicts tokens (...", kTokensArchitecture, ") or labels (...",
                     kLabelsArchitecture, "), since no other head is supported"));
  }
  if (!labels) return;
  const std::vector<std::string> names = ClassNames(fields);
  const bool one = names.size() == 1;
  const std::string type = fields->Text("problem_type", one ? kRegression : kClassification);
  fields->Require(type == (one ? kRegression : kClassification), "problem_type",
                  one ? absl::StrCat("\"", kRegression, "\", since id2label has one label")
                      : absl::StrCat("\"", kClassification, "\", since id2label has ", names.size(),
                                     " labels"));
  v1::LabelHead* const head = config->mutable_label_head();
  if (one) {
    head->set_regression(true);
  } else {
    head->mutable_classes()->Assign(names.begin(), names.end());
  }
}

}  // namespace braid
