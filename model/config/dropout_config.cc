#include "model/config/dropout_config.h"

#include <cmath>

#include "base/status_macros.h"
#include "model/config/config_checks.h"
#include "proto/stated_defaults.h"

namespace braid {
namespace {

constexpr int kDefaultBlock = 7;

// Returns whether two passes over the same sequences can differ.
bool IsRandom(const v1::ModelConfig& config) {
  const v1::TokenRouting& token = config.routing().token();
  return config.has_dropout() || token.gate() == v1::TokenRouting::RANDOM ||
         token.gate_noise_std() > 0;
}

absl::Status CheckConsistency(const v1::ModelConfig& config) {
  const double c = config.consistency_loss();
  if (!(std::isfinite(c) && c >= 0)) {
    return Invalid("consistency_loss", "got ", c, ", expected 0 or a positive number");
  }
  if (c == 0 || IsRandom(config)) return absl::OkStatus();
  return Invalid("consistency_loss", "got ", c,
                 ", but both passes would be the same; use the gate RANDOM, "
                 "routing.token.gate_noise_std or dropout.rate, or set it to 0");
}

absl::Status CheckUnits(const v1::ModelConfig& config) {
  const v1::DropoutConfig& dropout = config.dropout();
  const bool chosen = config.routing().router() == v1::TOKEN_CHOICE;
  if (dropout.kind() == v1::DropoutConfig::EXPERTS) {
    if (!chosen) {
      return Invalid("dropout.kind", "got EXPERTS, but the router is ",
                     v1::Router_Name(config.routing().router()),
                     ", expected TOKEN_CHOICE; use BERNOULLI");
    }
    return absl::OkStatus();
  }
  if (!chosen && config.routing().router() != v1::DENSE) {
    return Invalid("dropout", "the router is ", v1::Router_Name(config.routing().router()),
                   ", expected DENSE or TOKEN_CHOICE; leave dropout unset");
  }
  if (dropout.kind() != v1::DropoutConfig::DROP_BLOCK) return absl::OkStatus();
  const int units = chosen ? config.routing().token().expert_d_ff() : config.d_ff();
  if (dropout.block_size() >= 1 && dropout.block_size() <= units) return absl::OkStatus();
  return Invalid("dropout.block_size", "got ", dropout.block_size(), ", expected 1 to ", units,
                 ", the units of ", chosen ? "an expert" : "the FFN", " (its default is ",
                 kDefaultBlock, ")");
}

}  // namespace

void FillDropoutDefaults(v1::ModelConfig* config) {
  if (config->consistency_loss() == 0) config->clear_consistency_loss();
  if (!config->has_dropout()) return;
  v1::DropoutConfig* dropout = config->mutable_dropout();
  FillStatedDefaults(dropout);
  if (dropout->kind() == v1::DropoutConfig::DROP_BLOCK && !dropout->has_block_size()) {
    dropout->set_block_size(kDefaultBlock);
  }
  // A learned rate has a layer's parameter even when it begins at 0, which CheckDropout refuses.
  if (dropout->rate() == 0 && dropout->kind() != v1::DropoutConfig::CONCRETE) {
    config->clear_dropout();
  }
}

absl::Status CheckDropout(const v1::ModelConfig& config) {
  RETURN_IF_ERROR(CheckConsistency(config));
  if (!config.has_dropout()) return absl::OkStatus();
  const v1::DropoutConfig& dropout = config.dropout();
  RETURN_IF_ERROR(CheckRange("dropout.kind", dropout.kind(), 1, v1::DropoutConfig::Kind_MAX));
  const bool learned = dropout.kind() == v1::DropoutConfig::CONCRETE;
  if (!(dropout.rate() >= 0 && dropout.rate() < 1) || (learned && dropout.rate() == 0)) {
    return Invalid("dropout.rate", "got ", dropout.rate(), ", expected ",
                   learned ? "more than 0 and less than 1" : "at least 0 and less than 1");
  }
  if (dropout.has_block_size() && dropout.kind() != v1::DropoutConfig::DROP_BLOCK) {
    return Invalid("dropout.block_size", "got ", dropout.block_size(), ", but the kind is ",
                   v1::DropoutConfig::Kind_Name(dropout.kind()),
                   "; set dropout.kind=DROP_BLOCK or leave it unset");
  }
  return CheckUnits(config);
}

}  // namespace braid
