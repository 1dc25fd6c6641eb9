// CRC-32C (Castagnoli): reflected polynomial 0x82F63B78, initial value and final
// xor 0xFFFFFFFF, as in iSCSI, ext4 and TFRecord. Crc32c("123456789") is
// 0xE3069283 and Crc32c("") is 0.
#ifndef BRAID_BASE_CRC32C_H_
#define BRAID_BASE_CRC32C_H_

#include <cstdint>
#include <string>
#include <string_view>

namespace braid {

// Returns the CRC of the bytes whose CRC is `seed`, followed by `data`:
//   Crc32c(b, Crc32c(a)) == Crc32c(a + b)
uint32_t Crc32c(std::string_view data, uint32_t seed = 0);

// Returns Crc32c(a + b) from Crc32c(a), Crc32c(b) and the length of b, in time O(log b_bytes).
// Requires b_bytes >= 0.
uint32_t Crc32cConcat(uint32_t a, uint32_t b, int64_t b_bytes);

// Returns the CRC of a text in which one range was replaced by another of equal length, from the
// CRC of the whole text and those of the range before and after. `tail_bytes` is the number of
// bytes after the range.
uint32_t Crc32cReplace(uint32_t whole, uint32_t before, uint32_t after, int64_t tail_bytes);

// Returns the CRC of `bytes` zero bytes.
uint32_t Crc32cOfZeros(int64_t bytes);

// Formats a CRC as eight lower-case hexadecimal digits, as manifests and messages print it.
std::string Crc32cToHex(uint32_t crc);

}  // namespace braid

#endif  // BRAID_BASE_CRC32C_H_
