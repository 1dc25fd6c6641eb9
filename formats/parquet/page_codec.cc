#include "formats/parquet/page_codec.h"

#include <brotli/decode.h>
#include <isa-l.h>
#include <lz4.h>
#include <snappy.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

bool ExpandSnappy(std::string_view in, char* out, size_t size) {
  size_t expanded = 0;
  return snappy::GetUncompressedLength(in.data(), in.size(), &expanded) && expanded == size &&
         snappy::RawUncompress(in.data(), in.size(), out);
}

// Expands one member after another, of which the format allows several.
bool ExpandGzip(std::string_view in, char* out, size_t size) {
  do {
    inflate_state stream;
    isal_inflate_init(&stream);
    // Some writers put a zlib header where the format asks for that of gzip.
    stream.crc_flag = in.starts_with("\x1f\x8b") ? ISAL_GZIP : ISAL_ZLIB;
    stream.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(in.data()));
    stream.avail_in = static_cast<uint32_t>(in.size());
    stream.next_out = reinterpret_cast<uint8_t*>(out);
    stream.avail_out = static_cast<uint32_t>(size);
    if (isal_inflate_stateless(&stream) != ISAL_DECOMP_OK) return false;
    in.remove_prefix(in.size() - stream.avail_in);
    out += size - stream.avail_out;
    size = stream.avail_out;
  } while (size > 0 && !in.empty());
  return size == 0;
}

bool ExpandBrotli(std::string_view in, char* out, size_t size) {
  size_t expanded = size;
  return BrotliDecoderDecompress(in.size(), reinterpret_cast<const uint8_t*>(in.data()), &expanded,
                                 reinterpret_cast<uint8_t*>(out)) ==
             BROTLI_DECODER_RESULT_SUCCESS &&
         expanded == size;
}

bool ExpandLz4(std::string_view in, char* out, size_t size) {
  return LZ4_decompress_safe(in.data(), out, static_cast<int>(in.size()), static_cast<int>(size)) ==
         static_cast<int>(size);
}

}  // namespace

absl::Status DecompressPage(ParquetCodec codec, std::string_view compressed, size_t size,
                            std::string* out) {
  const size_t before = out->size();
  out->resize(before + size);
  char* const to = out->data() + before;
  bool good = false;
  switch (codec) {
    case ParquetCodec::kNone:
      good = compressed.size() == size;
      if (good) compressed.copy(to, size);
      break;
    case ParquetCodec::kSnappy:
      good = ExpandSnappy(compressed, to, size);
      break;
    case ParquetCodec::kGzip:
      good = ExpandGzip(compressed, to, size);
      break;
    case ParquetCodec::kBrotli:
      good = ExpandBrotli(compressed, to, size);
      break;
    case ParquetCodec::kZstd:
      good = ZSTD_decompress(to, size, compressed.data(), compressed.size()) == size;
      break;
    case ParquetCodec::kLz4Raw:
      good = ExpandLz4(compressed, to, size);
      break;
    case ParquetCodec::kLzo:
    case ParquetCodec::kLz4Hadoop:
      return absl::UnimplementedError(
          absl::StrCat("compression ", codec == ParquetCodec::kLzo ? "LZO" : "LZ4 of Hadoop",
                       " is not supported; write the file again with zstd"));
    default:
      return absl::UnimplementedError(
          absl::StrCat("compression ", static_cast<int>(codec), " is not known"));
  }
  if (good) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("bad page: its ", compressed.size(), " bytes do not expand to ", size));
}

}  // namespace braid
