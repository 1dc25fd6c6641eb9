// The identity of a stage output: a hash of everything that determines its bytes.
//
//   std::string key = StageKey("embed", 1).Add("ingest", ingest_key)
//                         .Add("dimension", 512).Hex();
#ifndef BRAID_PIPELINE_STORE_STAGE_KEY_H_
#define BRAID_PIPELINE_STORE_STAGE_KEY_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

// Builds a key. The fields are hashed in the order of the Add calls, each with its name, type and
// length, so that different sequences of fields never have the same encoding.
class StageKey {
 public:
  // `format_version` must be increased whenever a change of the code changes the output of the
  // stage.
  StageKey(std::string_view stage, int32_t format_version);

  StageKey& Add(std::string_view name, std::string_view value);
  StageKey& Add(std::string_view name, const char* value);
  StageKey& Add(std::string_view name, int64_t value);
  StageKey& Add(std::string_view name, int32_t value);
  StageKey& Add(std::string_view name, uint64_t value);
  StageKey& Add(std::string_view name, bool value);
  StageKey& Add(std::string_view name, double value);

  // Returns the XXH3-128 hash of the fields as 32 lower-case hexadecimal digits.
  std::string Hex() const;

 private:
  StageKey& AddField(std::string_view name, char type, std::string_view value);

  std::string fields_;
};

}  // namespace braid

#endif  // BRAID_PIPELINE_STORE_STAGE_KEY_H_
