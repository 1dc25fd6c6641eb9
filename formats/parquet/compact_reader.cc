#include "formats/parquet/compact_reader.h"

#include <algorithm>

namespace braid {
namespace {

constexpr int kDeepestStruct = 64;

int64_t Unzigzag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

}  // namespace

uint8_t CompactReader::Byte() {
  if (!ok_ || position_ >= bytes_.size()) {
    ok_ = false;
    return 0;
  }
  return static_cast<uint8_t>(bytes_[position_++]);
}

uint64_t CompactReader::Varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    const uint8_t byte = Byte();
    if (shift < 64) value |= uint64_t{byte & 0x7Fu} << shift;
    if ((byte & 0x80) == 0) return ok_ ? value : 0;
  }
  ok_ = false;
  return 0;
}

size_t CompactReader::Length() {
  const uint64_t length = Varint();
  if (length > bytes_.size() - std::min(position_, bytes_.size())) ok_ = false;
  return ok_ ? static_cast<size_t>(length) : 0;
}

std::string_view CompactReader::Take(size_t size) {
  if (!ok_ || size > bytes_.size() - position_) {
    ok_ = false;
    return {};
  }
  const std::string_view taken = bytes_.substr(position_, size);
  position_ += size;
  return taken;
}

std::optional<CompactField> CompactReader::NextField(int16_t previous) {
  const uint8_t byte = Byte();
  if (!ok_ || byte == 0) return std::nullopt;
  const int type = byte & 0x0F;
  if (type < 1 || type > 12) {
    ok_ = false;
    return std::nullopt;
  }
  const int delta = byte >> 4;
  const int64_t id = delta != 0 ? previous + delta : Unzigzag(Varint());
  if (!ok_ || id < INT16_MIN || id > INT16_MAX) {
    ok_ = false;
    return std::nullopt;
  }
  return CompactField{static_cast<int16_t>(id), static_cast<CompactType>(type)};
}

int64_t CompactReader::Integer(CompactType type) {
  if (type == CompactType::kByte) return static_cast<int8_t>(Byte());
  if (type != CompactType::kI16 && type != CompactType::kI32 && type != CompactType::kI64) {
    ok_ = false;
    return 0;
  }
  return Unzigzag(Varint());
}

bool CompactReader::Boolean(CompactType type) {
  if (type != CompactType::kTrue && type != CompactType::kFalse) ok_ = false;
  return type == CompactType::kTrue;
}

std::string_view CompactReader::Binary(CompactType type) {
  if (type != CompactType::kBinary) ok_ = false;
  return Take(Length());
}

size_t CompactReader::ListOf(CompactType type, CompactType element) {
  if (type != CompactType::kList) ok_ = false;
  const uint8_t header = Byte();
  const size_t size = header >> 4 == 15 ? Length() : size_t{header} >> 4;
  // The types of empty lists differ between writers.
  if (size > 0 && (header & 0x0F) != static_cast<int>(element)) ok_ = false;
  if (size > bytes_.size() - std::min(position_, bytes_.size())) ok_ = false;
  return ok_ ? size : 0;
}

void CompactReader::SkipElements(CompactType type, int depth) {
  // In lists a boolean takes a byte.
  if (type == CompactType::kTrue || type == CompactType::kFalse) {
    Byte();
  } else {
    Skip(type, depth);
  }
}

void CompactReader::Skip(CompactType type, int depth) {
  if (depth > kDeepestStruct) ok_ = false;
  if (!ok_) return;
  switch (type) {
    case CompactType::kTrue:
    case CompactType::kFalse:
      return;
    case CompactType::kByte:
      Byte();
      return;
    case CompactType::kI16:
    case CompactType::kI32:
    case CompactType::kI64:
      Varint();
      return;
    case CompactType::kDouble:
      Take(8);
      return;
    case CompactType::kBinary:
      Take(Length());
      return;
    case CompactType::kList:
    case CompactType::kSet: {
      const uint8_t header = Byte();
      const size_t size = header >> 4 == 15 ? Length() : size_t{header} >> 4;
      for (size_t i = 0; i < size && ok_; ++i) {
        SkipElements(static_cast<CompactType>(header & 0x0F), depth + 1);
      }
      return;
    }
    case CompactType::kMap: {
      const size_t size = Length();
      const uint8_t types = size > 0 ? Byte() : uint8_t{0};
      for (size_t i = 0; i < size && ok_; ++i) {
        SkipElements(static_cast<CompactType>(types >> 4), depth + 1);
        SkipElements(static_cast<CompactType>(types & 0x0F), depth + 1);
      }
      return;
    }
    case CompactType::kStruct: {
      int16_t id = 0;
      while (const std::optional<CompactField> field = NextField(id)) {
        id = field->id;
        Skip(field->type, depth + 1);
      }
      return;
    }
  }
  ok_ = false;
}

}  // namespace braid
