// Decompression of Parquet pages.
#ifndef BRAID_FORMATS_PARQUET_PAGE_CODEC_H_
#define BRAID_FORMATS_PARQUET_PAGE_CODEC_H_

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "formats/parquet/parquet_metadata.h"

namespace braid {

// Appends the `size` bytes that `compressed` expands to. Never writes more. DATA_LOSS if they are
// fewer or more, or the data are damaged; UNIMPLEMENTED for LZO and Hadoop's LZ4.
absl::Status DecompressPage(ParquetCodec codec, std::string_view compressed, size_t size,
                            std::string* out);

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_PAGE_CODEC_H_
