// Markdown tables for TensorBoard's text tab.
#ifndef BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_
#define BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_

#include <string>
#include <string_view>

#include "braid/v1/evaluation.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns one row with path and value for each setting that is not its type's zero.
std::string ConfigurationTable(const v1::RunSpec& spec);

// Returns one row per domain, then their total.
std::string EvaluationTable(const v1::Evaluation& evaluation);

// Returns the text as an indented block, which keeps line breaks and shows no markup. Bytes that
// are not UTF-8 become U+FFFD.
std::string Verbatim(std::string_view text);

}  // namespace braid

#endif  // BRAID_RUNS_METRICS_EXPORT_TEXT_TABLES_H_
