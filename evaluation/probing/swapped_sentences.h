// Sentences whose words or clauses have changed places.
#ifndef BRAID_EVALUATION_PROBING_SWAPPED_SENTENCES_H_
#define BRAID_EVALUATION_PROBING_SWAPPED_SENTENCES_H_

#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace braid {

// Returns the sentence with two neighboring words exchanged, at a place that depends on the
// sentence alone; nullopt when it has none. Both words consist of lower-case letters, so that
// neither capitals nor punctuation show the exchange, and differ.
std::optional<std::string> SwapWords(std::string_view sentence);

// Returns the sentence with the clauses around its only ", and", ", but" or ";" exchanged; nullopt
// when it has another comma, semicolon, colon or quote, or a clause of fewer than three words. The
// clause that comes first begins with a capital. The first word of the other one loses its own if
// `is_lower_case`, so that names keep theirs.
std::optional<std::string> SwapClauses(
    std::string_view sentence, const std::function<bool(std::string_view)>& is_lower_case);

}  // namespace braid

#endif  // BRAID_EVALUATION_PROBING_SWAPPED_SENTENCES_H_
