#include "runs/conversion_record.h"

#include <google/protobuf/text_format.h>

#include <string>

#include "base/atomic_file.h"
#include "base/sealed_text.h"
#include "base/status_macros.h"
#include "proto/config_text.h"

namespace braid {
absl::StatusOr<std::optional<v1::Conversion>> ReadConversion(
    const std::filesystem::path& checkpoint) {
  const std::filesystem::path file = checkpoint / kConversionFile;
  const absl::StatusOr<std::string> text = ReadFile(file);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  RETURN_IF_ERROR(text.status());
  RETURN_IF_ERROR(CheckSealedLines(*text, file));
  v1::Conversion record;
  RETURN_IF_ERROR(ParseConfig(*text, file.string(), &record));
  return record;
}

absl::Status WriteConversion(const v1::Conversion& record,
                             const std::filesystem::path& checkpoint) {
  std::string text;
  google::protobuf::TextFormat::PrintToString(record, &text);
  return WriteFileAtomically(checkpoint / kConversionFile, SealLines(text));
}

}  // namespace braid
