#include "formats/parquet/page_codec.h"

#include <brotli/decode.h>
#include <lz4.h>
#include <snappy.h>
#include <zlib.h>
#include <zstd.h>

#include "absl/strings/str_cat.h"

namespace braid {
namespace {

bool ExpandSnappy(std::string_view in, char* out, size_t size) {
  size_t expanded = 0;
  return snappy::GetUncompressedLength(in.data(), in.size(), &expanded) && expanded == size &&
         snappy::RawUncompress(in.data(), in.size(), out);
}

bool ExpandGzip(std::string_view in, char* out, size_t size) {
  z_stream stream = {};
  if (inflateInit2(&stream, 15 + 32) != Z_OK) return false;  // gzip or zlib, by the header
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(in.data()));
  stream.avail_in = static_cast<uInt>(in.size());
  stream.next_out = reinterpret_cast<Bytef*>(out);
  stream.avail_out = static_cast<uInt>(size);
  const int rc = inflate(&stream, Z_FINISH);
  const bool whole = rc == Z_STREAM_END && stream.avail_out == 0;
  inflateEnd(&stream);
  return whole;
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
