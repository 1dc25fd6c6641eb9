// An incremental hash of a sequence of fields.
#ifndef BRAID_BASE_FIELD_DIGEST_H_
#define BRAID_BASE_FIELD_DIGEST_H_

#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace braid {

// Computes the 128-bit XXH3 hash of a sequence of fields. Each field is preceded by its length, so
// different sequences do not collide by concatenation. Not safe against adversaries. Not
// thread-safe.
//
//   FieldDigest digest;
//   digest.Add(id);
//   digest.Add(text);
//   digest.Hex();  // "2d06800538d394c2..."
class FieldDigest {
 public:
  FieldDigest();

  void Add(std::string_view field);

  // Returns 32 hexadecimal digits for the fields added so far.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace braid

#endif  // BRAID_BASE_FIELD_DIGEST_H_
