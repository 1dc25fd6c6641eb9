#include "runs/starting_point.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/field_comparator.h>
#include <google/protobuf/util/message_differencer.h>

#include <map>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/atomic_file.h"
#include "base/status_macros.h"
#include "model/config/document_config.h"
#include "model/config/family_config.h"
#include "model/config/finetuning_config.h"
#include "model/config/head_config.h"
#include "model/config/layer_mixing_config.h"
#include "model/config/model_config.h"
#include "model/config/parameter_layout.h"
#include "runs/checkpoint.h"
#include "runs/expert_growth.h"
#include "runs/model_path.h"

namespace braid {
namespace {

// Returns the configuration without the fields on which weights do not depend.
v1::ModelConfig WeightShape(const v1::ModelConfig& config) {
  v1::ModelConfig shape = DenseCounterpart(config);
  // Those of experts, too, which the counterpart lacks.
  if (config.has_dropout()) *shape.mutable_dropout() = config.dropout();
  shape.set_consistency_loss(config.consistency_loss());
  shape.clear_preset();
  shape.clear_sequence_length();
  shape.clear_initialization();
  shape.clear_base_width();
  shape.clear_attention_mask();
  shape.clear_document_end();
  shape.clear_start_token();
  shape.clear_chat_template();
  shape.clear_unknown_chat_template();
  shape.clear_z_loss();
  shape.clear_routing();
  shape.clear_layer_mixing();
  return shape;
}

// Returns the weight shape without dropout that has no parameters: fine-tuning may add or drop it.
v1::ModelConfig ComparedShape(const v1::ModelConfig& config) {
  v1::ModelConfig shape = WeightShape(config);
  if (!LearnsDropout(shape)) shape.clear_dropout();
  shape.clear_consistency_loss();
  return shape;
}

// Experts that tokens choose were trained for their gate, their width and their number.
absl::Status CheckSameChoice(const v1::RoutingConfig& source, const v1::RoutingConfig& asked) {
  const bool chosen = source.router() == v1::TOKEN_CHOICE;
  if (chosen != (asked.router() == v1::TOKEN_CHOICE)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.routing.router: got ", v1::Router_Name(asked.router()), ", expected ",
        v1::Router_Name(source.router()), " as in the weights of init_from; leave it unset"));
  }
  const v1::TokenRouting &have = source.token(), &want = asked.token();
  if (chosen && have.gate() != want.gate()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.routing.token.gate: got ", v1::TokenRouting::Gate_Name(want.gate()), ", expected ",
        v1::TokenRouting::Gate_Name(have.gate()), " as in the weights of init_from"));
  }
  if (chosen && have.centered_input() != want.centered_input()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.routing.token.centered_input: got ", want.centered_input(),
                     ", expected ", have.centered_input(), " as in the weights of init_from"));
  }
  if (chosen && have.expert_d_ff() != want.expert_d_ff()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.routing.token.expert_d_ff: got ", want.expert_d_ff(), ", expected ",
                     have.expert_d_ff(), " as in the weights of init_from"));
  }
  return absl::OkStatus();
}

// A gate of layers keeps its shape; one that the weights lack is new.
absl::Status CheckSameMixing(const v1::ModelConfig& source, const v1::ModelConfig& asked) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const ParameterSpec& spec : ParameterLayout(source)) shapes[spec.name] = spec.shape;
  for (const ParameterSpec& spec : ParameterLayout(asked)) {
    if (spec.group != "layer_mixing" || !shapes.contains(spec.name)) continue;
    if (shapes[spec.name] == spec.shape) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "model.layer_mixing: ", spec.name, " got shape [", absl::StrJoin(spec.shape, ", "),
        "], expected [", absl::StrJoin(shapes[spec.name], ", "),
        "] as in the weights of init_from; use the layers and the score of those weights"));
  }
  return absl::OkStatus();
}

// A label head replaces the head of tokens, whose losses it does not have.
void DropTokenHead(v1::ModelConfig* shape) {
  shape->clear_label_head();
  shape->clear_logit_soft_cap();
}

// A label head keeps its classes; one that the weights lack is new.
absl::Status CheckSameHead(const v1::ModelConfig& source, const v1::ModelConfig& asked) {
  if (!source.has_label_head() ||
      google::protobuf::util::MessageDifferencer::Equals(source.label_head(), asked.label_head())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model.label_head: got ", LabelsText(asked.label_head()), ", expected ",
      LabelsText(source.label_head()), " in this order, as in the weights of init_from"));
}

absl::Status CheckFits(const v1::ModelConfig& source, const v1::ModelConfig& asked) {
  google::protobuf::util::MessageDifferencer differencer;
  std::string difference;
  differencer.ReportDifferencesToString(&difference);
  RETURN_IF_ERROR(CheckSameHead(source, asked));
  v1::ModelConfig have_shape = ComparedShape(source), want_shape = ComparedShape(asked);
  if (asked.has_label_head()) {
    DropTokenHead(&have_shape);
    DropTokenHead(&want_shape);
  }
  if (!differencer.Compare(have_shape, want_shape)) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_from: the weights do not fit the requested model (weights -> model): ",
                     absl::StrReplaceAll(absl::StripAsciiWhitespace(difference), {{"\n", ", "}}),
                     "; leave these settings out, and any preset, to take them from the weights"));
  }
  RETURN_IF_ERROR(CheckSameMixing(source, asked));
  if (IsGpt2(source) && asked.sequence_length() > source.sequence_length()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.sequence_length: got ", asked.sequence_length(), ", expected at most ",
                     source.sequence_length(),
                     ", the number of learned positions of init_from; pack the text to that"));
  }
  const int have = source.routing().num_experts(), want = asked.routing().num_experts();
  if (have == 1) return CheckMadeFromDense(asked);
  if (have != want) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.routing.num_experts: got ", want, ", expected ", have,
        " as in the weights of init_from (only a dense model can become an expert model)"));
  }
  RETURN_IF_ERROR(CheckSameChoice(source.routing(), asked.routing()));
  if (MoeLayers(source) == MoeLayers(asked)) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.routing.moe_layers: got ", absl::StrJoin(MoeLayers(asked), ","), ", expected ",
      absl::StrJoin(MoeLayers(source), ","), " as in the weights of init_from"));
}

// Returns whether the segments of a model from `source` only divide its figures: those of a dense
// model, and where tokens choose experts without pools.
bool HasIdleSegments(const v1::ModelConfig& source, const v1::ModelConfig& shape) {
  const v1::RoutingConfig& routing = shape.routing();
  if (source.routing().num_experts() > 1) {
    return routing.router() == v1::TOKEN_CHOICE && !routing.token().has_document_pool();
  }
  return routing.num_experts() <= 1 && shape.preset().empty();
}

// Keeps idle segments of the source where they fit.
void KeepIdleSegments(const v1::ModelConfig& source, const v1::ModelConfig& asked,
                      v1::ModelConfig* shape) {
  const int64_t length = shape->sequence_length(), segment = source.routing().segment_length();
  if (asked.routing().has_segment_length() || length < 1 || segment < 1 ||
      !HasIdleSegments(source, *shape)) {
    return;
  }
  shape->mutable_routing()->set_segment_length(
      static_cast<int32_t>(length % segment == 0 ? segment : length));
}

// Returns whether every field of the shape is set, as in a resolved model. Such a model does not
// need the weights it started from, which may have been deleted when the run is resumed.
bool HasWholeShape(const v1::ModelConfig& m) {
  return m.num_layers() > 0 && m.d_model() > 0 && m.num_heads() > 0 && m.d_ff() > 0 &&
         m.vocab_size() > 0 && (IsGpt2(m) || m.rope_theta() > 0) && m.norm_epsilon() > 0 &&
         m.routing().num_experts() > 0;
}

// Returns whether `m` is a resolved model, in which an unset field means its default and is not to
// be taken from other weights.
bool IsResolvedModel(const v1::ModelConfig& m) {
  return HasWholeShape(m) && m.initialization() != v1::INITIALIZATION_UNSPECIFIED &&
         m.routing().router() != v1::ROUTER_UNSPECIFIED &&
         m.routing().router_input() != v1::ROUTER_INPUT_UNSPECIFIED &&
         m.routing().first_segment() != v1::FIRST_SEGMENT_UNSPECIFIED &&
         m.routing().has_segment_length() && m.has_sequence_length();
}

}  // namespace

absl::StatusOr<StartingPoint> FindStartingPoint(const std::string& init_from) {
  ASSIGN_OR_RETURN(ModelPath path, FindModel(init_from, /*strict=*/true));
  if (path.state.use_average) {
    return absl::InvalidArgumentError(
        absl::StrCat("init_from: got ", init_from,
                     ", expected the weights of a checkpoint: a run "
                     "does not start from an average; export it and import the export"));
  }
  return StartingPoint{path.checkpoint, std::move(path.state.model)};
}

absl::StatusOr<v1::ModelConfig> ShapeFrom(const v1::ModelConfig& source,
                                          const v1::ModelConfig& asked) {
  if (IsResolvedModel(asked)) {
    ASSIGN_OR_RETURN(v1::ModelConfig same, ResolveModelConfig(asked));
    RETURN_IF_ERROR(CheckFits(source, same));
    return same;
  }
  v1::ModelConfig shape;
  if (asked.preset().empty()) shape = WeightShape(source);
  if (asked.has_label_head()) DropTokenHead(&shape);
  // The block size belongs to the kind of dropout.
  if (asked.dropout().kind() != shape.dropout().kind() &&
      asked.dropout().kind() != v1::DropoutConfig::KIND_UNSPECIFIED) {
    shape.mutable_dropout()->clear_block_size();
  }
  shape.MergeFrom(asked);
  if (shape.start_token() == v1::START_TOKEN_UNSPECIFIED) {
    shape.set_start_token(source.start_token());
  }
  if (shape.chat_template().empty()) {
    shape.set_chat_template(source.chat_template());
    shape.set_unknown_chat_template(source.unknown_chat_template());
  }
  if (shape.attention_mask() == v1::ATTENTION_MASK_UNSPECIFIED) {
    shape.set_attention_mask(source.attention_mask());
  }
  if (!shape.has_layer_mixing() && source.has_layer_mixing()) {
    *shape.mutable_layer_mixing() = source.layer_mixing();
  }
  if (source.routing().num_experts() > 1) {
    v1::RoutingConfig routing = source.routing();
    routing.MergeFrom(asked.routing());
    // MergeFrom would append to the list, so it is replaced.
    if (asked.routing().moe_layers_size() > 0) {
      *routing.mutable_moe_layers() = asked.routing().moe_layers();
    }
    // CheckFits refuses the other router, so that no setting of this one is named instead.
    if (routing.router() != v1::TOKEN_CHOICE && !asked.routing().has_token()) {
      routing.clear_token();
    }
    if (!CutsAtDocuments(routing) && !asked.routing().reset_at_documents()) {
      routing.clear_reset_at_documents();
    }
    *shape.mutable_routing() = routing;
  }
  KeepIdleSegments(source, asked, &shape);
  if (!shape.has_document_end() && source.has_document_end() && UsesDocumentEnd(shape)) {
    shape.set_document_end(source.document_end());
  }
  ASSIGN_OR_RETURN(shape, ResolveModelConfig(shape));
  RETURN_IF_ERROR(CheckFits(source, shape));
  return shape;
}

absl::Status CheckSameUse(const v1::ModelConfig& source, const v1::RunSpec& spec) {
  if (!UsesExperts(source) || source.routing().router() != v1::TOKEN_CHOICE) {
    return absl::OkStatus();
  }
  const v1::TokenRouting &have = source.routing().token(), &want = spec.model().routing().token();
  if (!Grows(spec.growth()) && have.active_experts() != want.active_experts()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.routing.token.active_experts: got ", want.active_experts(), ", expected ",
        have.active_experts(),
        " as in the weights of init_from; use growth.first and growth.last to change the number, "
        "or --active-experts where the model is evaluated"));
  }
  if (spec.has_finetuning()) return absl::OkStatus();
  if (have.combine_weights() != want.combine_weights()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.routing.token.combine_weights: got ",
                     v1::TokenRouting::CombineWeights_Name(want.combine_weights()), ", expected ",
                     v1::TokenRouting::CombineWeights_Name(have.combine_weights()),
                     " as in the weights of init_from; fine-tune the model to change them"));
  }
  if (have.selection() == want.selection()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.routing.token.selection: got ", v1::TokenRouting::Selection_Name(want.selection()),
      ", expected ", v1::TokenRouting::Selection_Name(have.selection()),
      " as in the weights of init_from; fine-tune the model to change it"));
}

absl::Status CheckSameTokenizer(const std::filesystem::path& checkpoint,
                                const std::filesystem::path& dataset_dir) {
  ASSIGN_OR_RETURN(const FileSummary mine, SummarizeFile(checkpoint / kTokenizerFile));
  ASSIGN_OR_RETURN(const FileSummary theirs, SummarizeFile(dataset_dir / kTokenizerFile));
  if (mine.crc32c == theirs.crc32c && mine.bytes == theirs.bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "init_from: ", dataset_dir.string(), " was made with another tokenizer than ",
      checkpoint.string(), "; pack the corpus with tokenizer.model_path set to the latter's ",
      kTokenizerFile));
}

// A run that starts from experts has them from the first step.
absl::Status CheckNoDenseWarmup(const v1::UpcyclingConfig& upcycling) {
  if (!(upcycling.dense_fraction() > 0)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("upcycling.dense_fraction: got ", upcycling.dense_fraction(),
                   ", expected 0, since the weights of init_from have experts already; leave it "
                   "unset, or start from a dense model"));
}

absl::Status FillFromStartingPoint(const StartingPoint& start, v1::RunSpec* spec) {
  // The weights may have more embeddings than the tokenizer has pieces.
  if (!spec->model().has_vocab_size()) {
    spec->mutable_model()->set_vocab_size(start.model.vocab_size());
  }
  ASSIGN_OR_RETURN(*spec->mutable_model(), ShapeFrom(start.model, spec->model()));
  RETURN_IF_ERROR(CheckSameUse(start.model, *spec));
  if (start.model.has_layer_mixing() && UsesExperts(spec->model()) && !UsesExperts(start.model)) {
    RETURN_IF_ERROR(CheckPlainLayers(spec->model(), "init_from",
                                     "its gate was trained for the FFNs that it has; copy those of "
                                     "the model that it started from into experts"));
  }
  spec->set_init_from(start.checkpoint.string());
  if (UsesExperts(start.model) && !IsPartial(spec->finetuning())) {
    RETURN_IF_ERROR(CheckNoDenseWarmup(spec->upcycling()));
    spec->mutable_upcycling()->set_dense_fraction(0);
  }
  if (!IsPartial(spec->finetuning()) || UsesExperts(start.model) == UsesExperts(spec->model())) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "model.routing.router: got ", v1::Router_Name(spec->model().routing().router()),
      ", expected ", v1::Router_Name(start.model.routing().router()),
      " as in the weights of init_from, since finetuning trains a part of the parameters"));
}

absl::Status FillFromInit(v1::RunSpec* spec) {
  if (spec->init_from().empty()) return absl::OkStatus();
  const absl::StatusOr<StartingPoint> start = FindStartingPoint(spec->init_from());
  if (absl::IsNotFound(start.status()) && HasWholeShape(spec->model())) return absl::OkStatus();
  RETURN_IF_ERROR(start.status());
  RETURN_IF_ERROR(CheckSameTokenizer(start->checkpoint, spec->dataset_dir()));
  return FillFromStartingPoint(*start, spec);
}

}  // namespace braid
