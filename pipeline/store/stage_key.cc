#include "pipeline/store/stage_key.h"

#include <xxhash.h>

#include <bit>
#include <cstdio>

namespace braid {
namespace {

void AppendInteger(uint64_t value, std::string* out) {
  for (int shift = 0; shift < 64; shift += 8) out->push_back(static_cast<char>(value >> shift));
}

std::string Bytes(uint64_t value) {
  std::string bytes;
  AppendInteger(value, &bytes);
  return bytes;
}

}  // namespace

StageKey::StageKey(std::string_view stage, int32_t format_version) {
  Add("stage", stage).Add("format", format_version);
}

StageKey& StageKey::AddField(std::string_view name, char type, std::string_view value) {
  AppendInteger(name.size(), &fields_);
  fields_ += name;
  fields_ += type;
  AppendInteger(value.size(), &fields_);
  fields_ += value;
  return *this;
}

StageKey& StageKey::Add(std::string_view name, std::string_view value) {
  return AddField(name, 's', value);
}
StageKey& StageKey::Add(std::string_view name, const char* value) {
  return AddField(name, 's', value);
}
StageKey& StageKey::Add(std::string_view name, int64_t value) {
  return AddField(name, 'i', Bytes(static_cast<uint64_t>(value)));
}
StageKey& StageKey::Add(std::string_view name, int32_t value) {
  return Add(name, static_cast<int64_t>(value));
}
StageKey& StageKey::Add(std::string_view name, uint64_t value) {
  return AddField(name, 'u', Bytes(value));
}
StageKey& StageKey::Add(std::string_view name, bool value) {
  return AddField(name, 'b', value ? "1" : "0");
}
StageKey& StageKey::Add(std::string_view name, double value) {
  return AddField(name, 'd', Bytes(std::bit_cast<uint64_t>(value)));
}

std::string StageKey::Hex() const {
  const XXH128_hash_t hash = XXH3_128bits(fields_.data(), fields_.size());
  char text[33];
  std::snprintf(text, sizeof text, "%016llx%016llx", static_cast<unsigned long long>(hash.high64),
                static_cast<unsigned long long>(hash.low64));
  return text;
}

}  // namespace braid
