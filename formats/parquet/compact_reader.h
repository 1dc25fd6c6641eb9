// Reading of Thrift's compact protocol, in which Parquet files write their metadata.
#ifndef BRAID_FORMATS_PARQUET_COMPACT_READER_H_
#define BRAID_FORMATS_PARQUET_COMPACT_READER_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace braid {

enum class CompactType : uint8_t {
  kTrue = 1,
  kFalse = 2,
  kByte = 3,
  kI16 = 4,
  kI32 = 5,
  kI64 = 6,
  kDouble = 7,
  kBinary = 8,
  kList = 9,
  kSet = 10,
  kMap = 11,
  kStruct = 12,
};

struct CompactField {
  int16_t id = 0;
  CompactType type = CompactType::kStruct;
};

// A cursor over one serialized value. After the first malformed byte ok() is false, and every
// function returns an empty value, so that one check after a structure is enough. Not thread-safe.
class CompactReader {
 public:
  explicit CompactReader(std::string_view bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }
  void Fail() { ok_ = false; }

  // Returns the next field of a structure; nullopt at its end. `previous` is the id of the field
  // before, 0 at first.
  std::optional<CompactField> NextField(int16_t previous);

  // Return the value of a field of that type. Integers may have any of the integer types.
  int64_t Integer(CompactType type);
  bool Boolean(CompactType type);
  std::string_view Binary(CompactType type);
  // Returns the number of elements of a list of `element`. Each takes a byte at least, so that a
  // count beyond the rest of the bytes is malformed.
  size_t ListOf(CompactType type, CompactType element);

  // Passes over a value.
  void Skip(CompactType type) { Skip(type, 0); }

 private:
  uint8_t Byte();
  uint64_t Varint();
  size_t Length();
  void Skip(CompactType type, int depth);
  void SkipElements(CompactType type, int depth);
  std::string_view Take(size_t size);

  std::string_view bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Calls field(id, type) for each field of the structure at `reader`; a field that `field` does not
// read, which it says by returning false, is passed over.
template <typename Function>
void ReadStruct(CompactReader& reader, const Function& field) {
  int16_t id = 0;
  while (const std::optional<CompactField> next = reader.NextField(id)) {
    id = next->id;
    if (!field(next->id, next->type)) reader.Skip(next->type);
  }
}

}  // namespace braid

#endif  // BRAID_FORMATS_PARQUET_COMPACT_READER_H_
