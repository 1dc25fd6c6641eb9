// Explanations of instances and documents as tables for a terminal.
#ifndef BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_
#define BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace braid::v1 {
class ExplainDocumentResponse;
class InstanceExplanation;
}  // namespace braid::v1

namespace braid {

// Returns untrusted text as one line that is safe on a terminal: runs of white space and control
// characters become single spaces.
std::string OneLine(const std::string& text);

// Prints the documents of an instance and, unless empty, the steps that read it.
void PrintInstance(const v1::InstanceExplanation& instance, const std::vector<int64_t>& steps,
                   std::ostream& out);

// Prints the outcome for a document and its spans. `steps` has the steps that trained on the
// instance of each span, or is empty when no training is described. They are those of `run`, or of
// training that is only planned when it is empty.
void PrintDocument(const v1::ExplainDocumentResponse& document,
                   const std::vector<std::vector<int64_t>>& steps, const std::string& run,
                   std::ostream& out);

}  // namespace braid

#endif  // BRAID_CLIENT_TERMINAL_EXPLANATION_TABLES_H_
