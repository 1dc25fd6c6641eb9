// How explanations of instances and documents look on a terminal.
#ifndef BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_
#define BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "braid/v1/pipeline.pb.h"

namespace braid {

// Text of others, safe on a terminal: control characters become spaces, and of
// several spaces one stays.
std::string OneLine(const std::string& text);

// `steps`: that see the instance; none are not mentioned.
void PrintInstance(const v1::InstanceExplanation& instance, const std::vector<int64_t>& steps,
                   std::ostream& out);

// `steps` [spans]: of each span's instance; may be empty.
void PrintDocument(const v1::ExplainDocumentResponse& document,
                   const std::vector<std::vector<int64_t>>& steps, std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_
