#include "pipeline/corpus/text_source.h"

#include <fcntl.h>
#include <isa-l.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>
#include <zstd_errors.h>

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/file_error.h"
#include "base/path_roots.h"
#include "base/status_macros.h"

namespace braid {
namespace {

constexpr size_t kInputBytes = size_t{256} << 10;
constexpr std::string_view kTextSourceByteOrderMark = "\xEF\xBB\xBF";

constexpr char kBombUrl[] = "braid/decompression-bomb";

// A file with a buffer of the bytes read but not yet used.
class FileInput {
 public:
  FileInput(std::filesystem::path path, int descriptor)
      : path_(std::move(path)), descriptor_(descriptor), buffer_(kInputBytes) {}
  FileInput(const FileInput&) = delete;
  FileInput& operator=(const FileInput&) = delete;
  ~FileInput() { close(descriptor_); }

  // Fills the buffer if it is empty. It remains empty at the end of the file.
  absl::Status Refill() {
    if (!rest_.empty()) return absl::OkStatus();
    ssize_t size;
    do {
      size = read(descriptor_, buffer_.data(), buffer_.size());
    } while (size < 0 && errno == EINTR);
    if (size < 0) {
      // UNAVAILABLE rather than DATA_LOSS: the content may be intact, and reading again may
      // succeed.
      return absl::UnavailableError(SystemError("read", path_, errno).message());
    }
    bytes_read_ += size;
    rest_ = std::string_view(buffer_.data(), static_cast<size_t>(size));
    return absl::OkStatus();
  }

  std::string_view rest() const { return rest_; }
  void Use(size_t bytes) { rest_.remove_prefix(bytes); }
  int64_t bytes_read() const { return bytes_read_; }
  int64_t position() const { return bytes_read_ - static_cast<int64_t>(rest_.size()); }
  const std::filesystem::path& path() const { return path_; }

 private:
  const std::filesystem::path path_;
  const int descriptor_;
  std::vector<char> buffer_;
  std::string_view rest_;
  int64_t bytes_read_ = 0;
};

class PlainSource : public TextSource {
 public:
  explicit PlainSource(std::unique_ptr<FileInput> input) : input_(std::move(input)) {}

  absl::StatusOr<size_t> Read(std::span<char> out) override {
    RETURN_IF_ERROR(input_->Refill());
    const size_t size = input_->rest().copy(out.data(), out.size());
    input_->Use(size);
    return size;
  }
  int64_t bytes_read() const override { return input_->position(); }

 private:
  std::unique_ptr<FileInput> input_;
};

// The common part of gzip and zstd: the read loop, truncation and the limit of expansion.
class CompressedSource : public TextSource {
 public:
  CompressedSource(std::unique_ptr<FileInput> input, const ExpansionLimit& limit)
      : input_(std::move(input)), limit_(limit) {}

  absl::StatusOr<size_t> Read(std::span<char> out) override {
    size_t produced = 0;
    while (produced == 0) {
      RETURN_IF_ERROR(input_->Refill());
      if (input_->rest().empty() && !has_pending_output_) {
        if (!inside_frame_) return 0;
        return Damaged("the end of the file", "more compressed data",
                       "The file is cut short; copy or download it again");
      }
      ASSIGN_OR_RETURN(produced, Decompress(out));
    }
    num_bytes_ += static_cast<int64_t>(produced);
    RETURN_IF_ERROR(CheckExpansion());
    return produced;
  }
  int64_t bytes_read() const override { return input_->position(); }

 protected:
  // Decompresses one step: consumes input, returns the bytes produced, sets inside_frame_ and
  // has_pending_output_.
  virtual absl::StatusOr<size_t> Decompress(std::span<char> out) = 0;

  absl::Status Damaged(std::string got, std::string expected, std::string hint) const {
    return CorruptFile(input_->path(), {.what = "compressed data",
                                        .offset = input_->position(),
                                        .got = std::move(got),
                                        .expected = std::move(expected),
                                        .hint = std::move(hint)});
  }

  std::unique_ptr<FileInput> input_;
  bool inside_frame_ = true;
  bool has_pending_output_ = false;

 private:
  absl::Status CheckExpansion() const {
    const int64_t compressed = input_->bytes_read();
    const bool dense = num_bytes_ > limit_.min_bytes && num_bytes_ / limit_.max_ratio > compressed;
    if (!dense && num_bytes_ <= limit_.max_bytes) return absl::OkStatus();
    absl::Status bomb = absl::ResourceExhaustedError(
        absl::StrCat(input_->path().string(), ": possible decompression bomb: got ", num_bytes_,
                     " bytes from ", compressed, " compressed ones, expected at most ",
                     limit_.max_ratio, " per byte and ", limit_.max_bytes,
                     " in total; if the text is genuine, decompress the file first, or in a "
                     "corpus job raise ingest.max_expansion_ratio or ingest.max_expanded_bytes"));
    bomb.SetPayload(kBombUrl, absl::Cord());
    return bomb;
  }

  const ExpansionLimit limit_;
  int64_t num_bytes_ = 0;
};

class GzipSource : public CompressedSource {
 public:
  GzipSource(std::unique_ptr<FileInput> input, const ExpansionLimit& limit)
      : CompressedSource(std::move(input), limit) {
    isal_inflate_init(&stream_);
    stream_.crc_flag = ISAL_GZIP_NO_HDR_VER;  // checks the trailer; ReadHeader() reads the header
    isal_gzip_header_init(&header_);
  }

 private:
  absl::StatusOr<size_t> Decompress(std::span<char> out) override {
    if (result_ < ISAL_DECOMP_OK) return Damaged(Fault(), "gzip data", "Check it with gzip -t");
    if (!inside_frame_ && !StartMember()) return 0;
    const std::string_view in = input_->rest();
    stream_.next_in = reinterpret_cast<uint8_t*>(const_cast<char*>(in.data()));
    stream_.avail_in = static_cast<uint32_t>(in.size());
    stream_.next_out = reinterpret_cast<uint8_t*>(out.data());
    stream_.avail_out = static_cast<uint32_t>(std::min<size_t>(out.size(), 1u << 30));
    const size_t room = stream_.avail_out;
    result_ = inside_header_ ? ReadHeader() : isal_inflate(&stream_);
    input_->Use(in.size() - stream_.avail_in);
    inside_frame_ = inside_header_ || stream_.block_state != ISAL_BLOCK_FINISH;
    // Returns the bytes before damage first; the next call then reports the damage.
    has_pending_output_ = result_ < ISAL_DECOMP_OK || (inside_frame_ && stream_.avail_out == 0);
    return room - stream_.avail_out;
  }

  int ReadHeader() {
    const int result = isal_read_gzip_header(&stream_, &header_);
    if (result != ISAL_DECOMP_OK) return result;
    inside_header_ = false;
    constexpr uint32_t kReservedFlags = 0xe0;  // RFC 1952 demands an error for them
    return (header_.flags & kReservedFlags) != 0 ? ISAL_INVALID_WRAPPER : ISAL_DECOMP_OK;
  }

  std::string Fault() const {
    switch (result_) {
      case ISAL_INCORRECT_CHECKSUM:
        return "a wrong checksum";
      case ISAL_INVALID_WRAPPER:
      case ISAL_UNSUPPORTED_METHOD:
        return "no gzip header";
      default:
        return "an invalid deflate block";
    }
  }

  // Starts the next member, if any. Zeros after a member are padding, as for the gzip program.
  bool StartMember() {
    const size_t zeros = std::min(input_->rest().find_first_not_of('\0'), input_->rest().size());
    input_->Use(zeros);
    if (input_->rest().empty()) return false;
    isal_inflate_reset(&stream_);
    isal_gzip_header_init(&header_);
    inside_frame_ = inside_header_ = true;
    return true;
  }

  inflate_state stream_;
  isal_gzip_header header_;
  bool inside_header_ = true;
  int result_ = ISAL_DECOMP_OK;
};

class ZstdSource : public CompressedSource {
 public:
  ZstdSource(std::unique_ptr<FileInput> input, const ExpansionLimit& limit)
      : CompressedSource(std::move(input), limit), context_(ZSTD_createDCtx()) {
    // Large public corpora are compressed with --long=31.
    ZSTD_DCtx_setParameter(context_, ZSTD_d_windowLogMax,
                           ZSTD_dParam_getBounds(ZSTD_d_windowLogMax).upperBound);
  }
  ~ZstdSource() override { ZSTD_freeDCtx(context_); }

 private:
  absl::StatusOr<size_t> Decompress(std::span<char> out) override {
    // Decompresses one block per call: an error discards the output of earlier blocks in the same
    // call.
    ZSTD_inBuffer in = {input_->rest().data(), std::min(input_->rest().size(), next_bytes_), 0};
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    const size_t rc = ZSTD_decompressStream(context_, &output, &in);
    input_->Use(in.pos);
    if (ZSTD_isError(rc)) return Failed(rc);
    next_bytes_ = rc != 0 ? rc : kFrameStartBytes;
    inside_frame_ = rc != 0;
    has_pending_output_ = inside_frame_ && output.pos == output.size;
    return output.pos;
  }

  absl::Status Failed(size_t rc) const {
    if (ZSTD_getErrorCode(rc) == ZSTD_error_memory_allocation) {
      return absl::UnavailableError(
          absl::StrCat(input_->path().string(), ": out of memory for the window of a zstd frame"));
    }
    return Damaged(ZSTD_getErrorName(rc), "Zstandard data", "Check it with zstd -t");
  }

  static constexpr size_t kFrameStartBytes = 5;
  ZSTD_DCtx* context_;
  size_t next_bytes_ = kFrameStartBytes;  // input size that the decoder requests next
};

bool IsGzip(std::string_view start) { return start.starts_with("\x1f\x8b"); }

bool IsZstd(std::string_view start) {
  const bool skippable =
      start.size() >= 4 && (start[0] & 0xF0) == 0x50 && start.substr(1, 3) == "\x2a\x4d\x18";
  return skippable || start.starts_with("\x28\xb5\x2f\xfd");
}

absl::Status CheckName(const std::filesystem::path& path, std::string_view start) {
  const std::string compression = CompressionOf(path);
  if (compression.empty()) return absl::OkStatus();
  return UnsuitableFile(
      path,
      {.what = "compressed file",
       .offset = 0,
       .got = start.empty() ? "an empty file"
                            : absl::StrCat("first bytes ",
                                           absl::BytesToHexString(std::string(start.substr(0, 4)))),
       .expected = compression == ".gz" ? "gzip data (1f8b...)" : "Zstandard data (28b52ffd)",
       .hint = "Rename it if it is not compressed"});
}

}  // namespace

std::string CompressionOf(const std::filesystem::path& path) {
  const std::string extension = absl::AsciiStrToLower(path.extension().string());
  if (extension == ".zstd") return ".zst";
  return extension == ".gz" || extension == ".zst" ? extension : "";
}

bool IsDecompressionBomb(const absl::Status& status) {
  return status.GetPayload(kBombUrl).has_value();
}

absl::StatusOr<std::unique_ptr<TextSource>> TextSource::Open(const std::filesystem::path& path,
                                                             const ExpansionLimit& limit) {
  // Without O_NONBLOCK, opening a FIFO would block until it has a writer. It has no effect on
  // regular files.
  ASSIGN_OR_RETURN(const int descriptor,
                   ClientRoots().Open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY));
  auto input = std::make_unique<FileInput>(path, descriptor);
  struct stat status;
  if (fstat(descriptor, &status) != 0) return SystemError("stat", path, errno);
  if (!S_ISREG(status.st_mode)) {
    return absl::InvalidArgumentError(path.string() + ": expected a regular file");
  }
  RETURN_IF_ERROR(input->Refill());
  const std::string_view start = input->rest();
  if (IsGzip(start)) return std::make_unique<GzipSource>(std::move(input), limit);
  if (IsZstd(start)) return std::make_unique<ZstdSource>(std::move(input), limit);
  RETURN_IF_ERROR(CheckName(path, start));
  return std::make_unique<PlainSource>(std::move(input));
}

absl::StatusOr<std::optional<std::string>> ReadText(const std::filesystem::path& path,
                                                    int64_t max_bytes,
                                                    const ExpansionLimit& limit) {
  ASSIGN_OR_RETURN(std::unique_ptr<TextSource> source, TextSource::Open(path, limit));
  std::string text;
  std::vector<char> chunk(kInputBytes);
  while (true) {
    ASSIGN_OR_RETURN(const size_t size, source->Read(chunk));
    if (size == 0) break;
    text.append(chunk.data(), size);
    if (static_cast<int64_t>(text.size()) > max_bytes) return std::nullopt;
  }
  if (text.starts_with(kTextSourceByteOrderMark)) text.erase(0, kTextSourceByteOrderMark.size());
  return text;
}

}  // namespace braid
