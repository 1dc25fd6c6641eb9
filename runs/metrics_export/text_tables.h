// Markdown for TensorBoard's text tab.
#ifndef BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_
#define BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_

#include <string>
#include <string_view>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// One row for each setting that is not its type's zero: its path and value.
std::string ConfigurationTable(const v1::RunSpec& spec);

// One row for each domain, then their total.
std::string EvaluationTable(const v1::Evaluation& evaluation);

// Bytes that are not UTF-8 become U+FFFD.
std::string ValidUtf8(std::string_view text);

// As an indented block, which keeps lines and shows no markup; what is not UTF-8 becomes U+FFFD.
std::string Verbatim(std::string_view text);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_
