#include "formats/parquet/value_decoders.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace braid {
namespace {

static_assert(std::endian::native == std::endian::little);

// Reads unsigned variable-length integers.
class VarintCursor {
 public:
  explicit VarintCursor(std::string_view bytes) : bytes_(bytes) {}

  // Returns false at the end of the bytes and for a number beyond 64 bits.
  bool Read(uint64_t* value) {
    *value = 0;
    for (int shift = 0; shift < 64 && position_ < bytes_.size(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[position_++]);
      *value |= uint64_t{byte & 0x7Fu} << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }

  bool ReadZigzag(int64_t* value) {
    uint64_t bits = 0;
    if (!Read(&bits)) return false;
    *value = static_cast<int64_t>(bits >> 1) ^ -static_cast<int64_t>(bits & 1);
    return true;
  }

  bool Take(size_t size, std::string_view* taken) {
    if (size > bytes_.size() - position_) return false;
    *taken = bytes_.substr(position_, size);
    position_ += size;
    return true;
  }

  bool at_end() const { return position_ == bytes_.size(); }
  size_t position() const { return position_; }

 private:
  std::string_view bytes_;
  size_t position_ = 0;
};

// Returns number `index` of those packed with `width` bits each, from the lowest bit on; `bytes`
// holds it.
uint64_t PackedBits(std::string_view bytes, size_t index, int width) {
  if (width == 0) return 0;
  const size_t bit = index * static_cast<size_t>(width);
  const size_t first = bit / 8;
  uint64_t low = 0;
  const size_t available = bytes.size() - first;
  std::memcpy(&low, bytes.data() + first, std::min<size_t>(8, available));
  const int shift = static_cast<int>(bit % 8);
  uint64_t value = low >> shift;
  if (shift + width > 64) {
    value |= uint64_t{static_cast<uint8_t>(bytes[first + 8])} << (64 - shift);
  }
  return width == 64 ? value : value & ((uint64_t{1} << width) - 1);
}

template <typename Value>
Value Load(std::string_view bytes, size_t index) {
  Value value;
  std::memcpy(&value, bytes.data() + index * sizeof(Value), sizeof(Value));
  return value;
}

absl::Status DecodePlainStrings(const EncodedValues& encoded, ParquetValues* values) {
  std::string_view rest = encoded.bytes;
  for (size_t i = 0; i < encoded.count; ++i) {
    if (rest.size() < 4) return BadPage("a string is cut off");
    const auto size = Load<uint32_t>(rest, 0);
    if (size > rest.size() - 4) return BadPage("a string is longer than its page");
    values->strings.push_back(rest.substr(4, size));
    rest.remove_prefix(4 + size_t{size});
  }
  return absl::OkStatus();
}

// The bytes of a value of fixed size; 0 for the others.
size_t PlainSize(const ParquetColumn& column) {
  switch (column.type) {
    case ParquetType::kInt32:
    case ParquetType::kFloat:
      return 4;
    case ParquetType::kInt64:
    case ParquetType::kDouble:
      return 8;
    case ParquetType::kInt96:
      return 12;
    case ParquetType::kFixedLengthByteArray:
      return static_cast<size_t>(column.type_length);
    default:
      return 0;
  }
}

void AppendFixed(std::string_view bytes, size_t i, const ParquetColumn& column,
                 ParquetValues* values) {
  switch (column.type) {
    case ParquetType::kInt32:
      values->integers.push_back(column.is_unsigned ? int64_t{Load<uint32_t>(bytes, i)}
                                                    : int64_t{Load<int32_t>(bytes, i)});
      return;
    case ParquetType::kInt64:
      values->integers.push_back(Load<int64_t>(bytes, i));
      return;
    case ParquetType::kFloat:
      values->numbers.push_back(double{Load<float>(bytes, i)});
      return;
    case ParquetType::kDouble:
      values->numbers.push_back(Load<double>(bytes, i));
      return;
    default: {
      const size_t size = PlainSize(column);
      values->strings.push_back(bytes.substr(i * size, size));
    }
  }
}

absl::Status DecodePlain(const EncodedValues& encoded, const ParquetColumn& column,
                         ParquetValues* values) {
  if (column.type == ParquetType::kByteArray) return DecodePlainStrings(encoded, values);
  if (column.type == ParquetType::kBoolean) {
    if (encoded.count > encoded.bytes.size() * 8) return BadPage("too few booleans");
    for (size_t i = 0; i < encoded.count; ++i) {
      values->integers.push_back(static_cast<int64_t>(PackedBits(encoded.bytes, i, 1)));
    }
    return absl::OkStatus();
  }
  if (encoded.count > encoded.bytes.size() / PlainSize(column)) return BadPage("too few values");
  for (size_t i = 0; i < encoded.count; ++i) AppendFixed(encoded.bytes, i, column, values);
  return absl::OkStatus();
}

absl::Status DecodeDictionary(const EncodedValues& encoded, const ParquetValues* dictionary,
                              ParquetValues* values) {
  if (dictionary == nullptr) return BadPage("it has indices, but no dictionary came before");
  if (encoded.bytes.empty()) return BadPage("it has no indices");
  std::vector<uint32_t> indices;
  RETURN_IF_ERROR(DecodeHybrid(encoded.bytes.substr(1), static_cast<uint8_t>(encoded.bytes[0]),
                               encoded.count, &indices));
  const size_t size = dictionary->size();
  for (const uint32_t index : indices) {
    if (index >= size) {
      return BadPage(absl::StrCat("index ", index, " of a dictionary of ", size));
    }
    if (!dictionary->strings.empty()) {
      values->strings.push_back(dictionary->strings[index]);
    } else if (!dictionary->integers.empty()) {
      values->integers.push_back(dictionary->integers[index]);
    } else {
      values->numbers.push_back(dictionary->numbers[index]);
    }
  }
  return absl::OkStatus();
}

// Decodes lengths; each is at least 0, and there are `count`.
absl::Status DecodeLengths(VarintCursor* cursor, std::string_view bytes, size_t count,
                           std::vector<int64_t>* lengths) {
  ASSIGN_OR_RETURN(const size_t used,
                   DecodeDelta(bytes.substr(cursor->position()), count, true, lengths));
  std::string_view passed;
  cursor->Take(used, &passed);
  const bool negative = std::ranges::any_of(*lengths, [](int64_t length) { return length < 0; });
  if (lengths->size() != count || negative) return BadPage("bad lengths of strings");
  return absl::OkStatus();
}

// Returns the bytes of the strings that begin with a part of the string before, which stand nowhere
// as a whole. `rest` is the number of bytes that hold the suffixes.
absl::StatusOr<size_t> JoinedBytes(const std::vector<int64_t>& prefixes,
                                   const std::vector<int64_t>& lengths, size_t rest,
                                   int64_t max_bytes) {
  auto left = static_cast<int64_t>(rest);
  int64_t size = 0, joined = 0;  // bytes of the string before, and of all joined strings
  for (size_t i = 0; i < prefixes.size(); ++i) {
    if (lengths[i] > left) return BadPage("a string is longer than its page");
    if (prefixes[i] > size) return BadPage("a prefix is longer than the string before");
    left -= lengths[i];
    size = prefixes[i] + lengths[i];
    if (prefixes[i] > 0) joined += size;
    if (joined > max_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the strings of a page expand to more than ", max_bytes,
                       " bytes, expected at most that for the bytes that they have in the file"));
    }
  }
  return static_cast<size_t>(joined);
}

absl::Status DecodeDeltaStrings(const EncodedValues& encoded, bool with_prefixes,
                                ParquetValues* values) {
  VarintCursor cursor(encoded.bytes);
  std::vector<int64_t> prefixes, lengths;
  if (with_prefixes) {
    RETURN_IF_ERROR(DecodeLengths(&cursor, encoded.bytes, encoded.count, &prefixes));
  }
  RETURN_IF_ERROR(DecodeLengths(&cursor, encoded.bytes, encoded.count, &lengths));
  // A few bytes of prefixes and lengths can stand for any number of long strings, so their sizes
  // are checked first.
  ASSIGN_OR_RETURN(const size_t joined_bytes,
                   JoinedBytes(prefixes, lengths, encoded.bytes.size() - cursor.position(),
                               encoded.max_joined_bytes));
  std::string& joined = *values->storage.emplace_back(std::make_unique<std::string>());
  joined.reserve(joined_bytes);  // never moves, so that strings can point into it
  std::string_view previous;
  for (size_t i = 0; i < encoded.count; ++i) {
    std::string_view text;
    if (!cursor.Take(static_cast<size_t>(lengths[i]), &text)) {
      return BadPage("a string is longer than its page");
    }
    if (with_prefixes && prefixes[i] > 0) {
      const size_t begin = joined.size();
      joined.append(previous.substr(0, static_cast<size_t>(prefixes[i]))).append(text);
      text = std::string_view(joined).substr(begin);
    }
    values->strings.push_back(previous = text);
  }
  return absl::OkStatus();
}

// The bytes of all values' first bytes, then of all second ones and so on.
absl::Status DecodeByteStreamSplit(const EncodedValues& encoded, const ParquetColumn& column,
                                   ParquetValues* values) {
  const size_t size = PlainSize(column);
  if (size == 0 || encoded.count > encoded.bytes.size() / size) return BadPage("too few values");
  auto joined = std::make_unique<std::string>(encoded.count * size, '\0');
  for (size_t i = 0; i < encoded.count; ++i) {
    for (size_t b = 0; b < size; ++b)
      (*joined)[i * size + b] = encoded.bytes[b * encoded.count + i];
  }
  for (size_t i = 0; i < encoded.count; ++i) AppendFixed(*joined, i, column, values);
  values->storage.push_back(std::move(joined));
  return absl::OkStatus();
}

absl::Status DecodeRleBooleans(const EncodedValues& encoded, ParquetValues* values) {
  if (encoded.bytes.size() < 4) return BadPage("it has no length");
  const auto size = Load<uint32_t>(encoded.bytes, 0);
  if (size > encoded.bytes.size() - 4) return BadPage("its runs are cut off");
  std::vector<uint32_t> bits;
  RETURN_IF_ERROR(DecodeHybrid(encoded.bytes.substr(4, size), 1, encoded.count, &bits));
  values->integers.insert(values->integers.end(), bits.begin(), bits.end());
  return absl::OkStatus();
}

absl::Status DecodeDeltaIntegers(const EncodedValues& encoded, const ParquetColumn& column,
                                 ParquetValues* values) {
  const bool narrow = column.type == ParquetType::kInt32;
  const size_t before = values->integers.size();
  RETURN_IF_ERROR(DecodeDelta(encoded.bytes, encoded.count, narrow, &values->integers).status());
  if (values->integers.size() != before + encoded.count) return BadPage("too few values");
  if (narrow && column.is_unsigned) {
    for (size_t i = before; i < values->integers.size(); ++i) {
      values->integers[i] = static_cast<uint32_t>(values->integers[i]);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status BadPage(std::string_view what) {
  return absl::DataLossError(absl::StrCat("bad page: ", std::string(what)));
}

void ParquetValues::clear() {
  integers.clear();
  numbers.clear();
  strings.clear();
  storage.clear();
}

absl::Status DecodeHybrid(std::string_view bytes, int bit_width, size_t count,
                          std::vector<uint32_t>* out) {
  if (bit_width > 32) return BadPage(absl::StrCat("integers of ", bit_width, " bits"));
  const auto width = static_cast<size_t>(bit_width);
  VarintCursor cursor(bytes);
  const size_t end = out->size() + count;
  out->reserve(end);
  while (out->size() < end) {
    uint64_t header = 0;
    if (!cursor.Read(&header)) return BadPage("its runs are cut off");
    const size_t missing = end - out->size();
    std::string_view run;
    if ((header & 1) == 0) {
      if (!cursor.Take((width + 7) / 8, &run)) return BadPage("a run is cut off");
      uint32_t value = 0;
      std::memcpy(&value, run.data(), run.size());
      out->insert(out->end(), std::min<uint64_t>(header >> 1, missing), value);
      if (header == 0) return BadPage("a run of nothing");
      continue;
    }
    const uint64_t groups = header >> 1;
    if (groups == 0 || groups > bytes.size() + count) return BadPage("a run is too long");
    // A writer may leave out the unused end of the last group.
    const size_t stored = std::min<size_t>(groups * width, bytes.size() - cursor.position());
    const size_t values = std::min<size_t>(groups * 8, missing);
    if (!cursor.Take(stored, &run) || values * width > stored * 8) {
      return BadPage("a run is cut off");
    }
    for (size_t i = 0; i < values; ++i) {
      out->push_back(static_cast<uint32_t>(PackedBits(run, i, bit_width)));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<size_t> DecodeDelta(std::string_view bytes, size_t limit, bool narrow,
                                   std::vector<int64_t>* out) {
  VarintCursor cursor(bytes);
  uint64_t block_size = 0, num_miniblocks = 0, total = 0;
  int64_t value = 0;
  if (!cursor.Read(&block_size) || !cursor.Read(&num_miniblocks) || !cursor.Read(&total) ||
      !cursor.ReadZigzag(&value)) {
    return BadPage("the header of deltas is cut off");
  }
  if (num_miniblocks == 0 || block_size == 0 || block_size > (1 << 24) ||
      block_size % num_miniblocks != 0 || total > limit) {
    return BadPage("a bad header of deltas");
  }
  const uint64_t per_miniblock = block_size / num_miniblocks;
  if (total > 0) out->push_back(narrow ? static_cast<int32_t>(value) : value);
  uint64_t left = total > 0 ? total - 1 : 0;
  while (left > 0) {
    int64_t least = 0;
    std::string_view widths;
    if (!cursor.ReadZigzag(&least) || !cursor.Take(num_miniblocks, &widths)) {
      return BadPage("a block of deltas is cut off");
    }
    for (size_t m = 0; m < num_miniblocks && left > 0; ++m) {
      const int width = static_cast<uint8_t>(widths[m]);
      std::string_view packed;
      if (width > 64 ||
          !cursor.Take((per_miniblock * static_cast<uint64_t>(width) + 7) / 8, &packed)) {
        return BadPage("a block of deltas is cut off");
      }
      const uint64_t values = std::min(left, per_miniblock);
      for (size_t i = 0; i < values; ++i) {
        value = static_cast<int64_t>(static_cast<uint64_t>(value) + static_cast<uint64_t>(least) +
                                     PackedBits(packed, i, width));
        if (narrow) value = static_cast<int32_t>(value);
        out->push_back(value);
      }
      left -= values;
    }
  }
  return cursor.position();
}

absl::Status DecodeValues(const EncodedValues& encoded, const ParquetColumn& column,
                          const ParquetValues* dictionary, ParquetValues* values) {
  if (encoded.count == 0) return absl::OkStatus();  // a page of nulls may have no bytes at all
  const bool strings =
      column.type == ParquetType::kByteArray || column.type == ParquetType::kFixedLengthByteArray;
  const bool integers = column.type == ParquetType::kInt32 || column.type == ParquetType::kInt64;
  switch (encoded.encoding) {
    case ParquetEncoding::kPlain:
      return DecodePlain(encoded, column, values);
    case ParquetEncoding::kPlainDictionary:
    case ParquetEncoding::kRleDictionary:
      return DecodeDictionary(encoded, dictionary, values);
    case ParquetEncoding::kRle:
      if (column.type != ParquetType::kBoolean) break;
      return DecodeRleBooleans(encoded, values);
    case ParquetEncoding::kDeltaBinaryPacked:
      if (!integers) break;
      return DecodeDeltaIntegers(encoded, column, values);
    case ParquetEncoding::kDeltaLengthByteArray:
      if (column.type != ParquetType::kByteArray) break;
      return DecodeDeltaStrings(encoded, false, values);
    case ParquetEncoding::kDeltaByteArray:
      if (!strings) break;
      return DecodeDeltaStrings(encoded, true, values);
    case ParquetEncoding::kByteStreamSplit:
      return DecodeByteStreamSplit(encoded, column, values);
    case ParquetEncoding::kBitPacked:
      break;
  }
  return absl::UnimplementedError(absl::StrCat("encoding ", static_cast<int>(encoded.encoding),
                                               " of values of type ", static_cast<int>(column.type),
                                               " is not supported"));
}

}  // namespace braid
