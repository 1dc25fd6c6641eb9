// A hash of a sequence of fields, computed as they come: equal sequences, equal digests.
#ifndef BRAID_BASE_FIELD_DIGEST_H_
#define BRAID_BASE_FIELD_DIGEST_H_

#include <memory>
#include <string>
#include <string_view>

struct XXH3_state_s;

namespace braid {

// XXH3, 128 bits. Each field goes in with its length before it, so that no two sequences run
// together. Not for adversaries.
//
//   FieldDigest digest;
//   digest.Add(id);
//   digest.Add(text);
//   digest.Hex();  // "2d06800538d394c2..."
class FieldDigest {
 public:
  FieldDigest();

  void Add(std::string_view field);

  // 32 hexadecimal digits, of the fields so far.
  std::string Hex() const;

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace braid

#endif  // BRAID_BASE_FIELD_DIGEST_H_
