// Unicode normalization (UAX #15) with the tables of Unicode 9, as the tokenizers library has it.
//
// Characters that are newer stay as they are: models were trained on such text.
#ifndef BRAID_FORMATS_TEXT_NORMALIZER_H_
#define BRAID_FORMATS_TEXT_NORMALIZER_H_

#include <span>
#include <string>
#include <string_view>

#include "formats/tokenizer_json.h"

namespace braid {

// Returns `text`, which must be valid UTF-8, normalized to `forms`, one after the other. The result
// refers to `text` if it is normalized already, which a table decides, else to `scratch`.
std::string_view Normalized(std::span<const NormalForm> forms, std::string_view text,
                            std::string* scratch);

}  // namespace braid

#endif  // BRAID_FORMATS_TEXT_NORMALIZER_H_
