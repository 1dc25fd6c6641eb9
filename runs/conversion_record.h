// conversion.textproto of a converted checkpoint (proto Conversion): what the checkpoint was made
// of.
#ifndef BRAID_RUNS_CONVERSION_RECORD_H_
#define BRAID_RUNS_CONVERSION_RECORD_H_

#include <filesystem>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "braid/v1/conversion.pb.h"

namespace braid {

inline constexpr char kConversionFile[] = "conversion.textproto";

// Reads the record of a checkpoint; nullopt for a checkpoint that no conversion made. DataLoss when
// the file is damaged, InvalidArgument when it is not a record.
absl::StatusOr<std::optional<v1::Conversion>> ReadConversion(
    const std::filesystem::path& checkpoint);

// Writes the record into the directory of a checkpoint. Errors: those of WriteFileAtomically.
absl::Status WriteConversion(const v1::Conversion& record, const std::filesystem::path& checkpoint);

}  // namespace braid

#endif  // BRAID_RUNS_CONVERSION_RECORD_H_
