#include "tests/base/crafted_files.h"

#include <gtest/gtest.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include <atomic>
#include <fstream>
#include <random>

#include "base/check.h"

namespace braid {

CraftedFiles::CraftedFiles() {
  static std::atomic<int> count = 0;
  directory_ = std::filesystem::path(testing::TempDir()) /
               ("crafted-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  std::filesystem::create_directories(directory_);
}

CraftedFiles::~CraftedFiles() { std::filesystem::remove_all(directory_); }

std::filesystem::path CraftedFiles::Write(const std::string& name, std::string_view bytes) const {
  const std::filesystem::path path = directory_ / name;
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
  return path;
}

std::string Gzip(std::string_view bytes) {
  z_stream stream = {};
  BRAID_CHECK(deflateInit2(&stream, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string out(deflateBound(&stream, bytes.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(bytes.data()));
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  BRAID_CHECK(deflate(&stream, Z_FINISH) == Z_STREAM_END);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

std::string Zstd(std::string_view bytes) {
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 3));
  return out;
}

std::string ZstdWithChecksum(std::string_view bytes) {
  ZSTD_CCtx* context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  std::string out(ZSTD_compressBound(bytes.size()), '\0');
  out.resize(ZSTD_compress2(context, out.data(), out.size(), bytes.data(), bytes.size()));
  ZSTD_freeCCtx(context);
  return out;
}

std::string RandomLines(uint64_t seed, size_t num_bytes) {
  std::mt19937_64 random(seed);
  std::string text;
  while (text.size() < num_bytes) {
    const int words = static_cast<int>(random() % 12);
    for (int i = 0; i < words; ++i) text += std::to_string(random() % 5000) + " ";
    text += '\n';
  }
  return text;
}

}  // namespace braid
