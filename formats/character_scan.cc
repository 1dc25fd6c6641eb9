#include "formats/character_scan.h"

#include <unicode/uchar.h>

namespace braid {

uint16_t ClassesOf(uint32_t code_point) {
  const auto c = static_cast<UChar32>(code_point);
  const uint32_t category = U_GET_GC_MASK(c);
  uint16_t classes = 0;
  if ((category & U_GC_L_MASK) != 0) classes |= kLetter;
  if ((category & U_GC_N_MASK) != 0) classes |= kNumber;
  if (u_isUWhiteSpace(c)) classes |= kSpace;
  if (c == '\r' || c == '\n') classes |= kLineEnd;
  const uint32_t uncased = U_GC_LM_MASK | U_GC_LO_MASK | U_GC_M_MASK;
  if ((category & (U_GC_LU_MASK | U_GC_LT_MASK | uncased)) != 0) classes |= kUpper;
  if ((category & (U_GC_LL_MASK | uncased)) != 0) classes |= kLower;
  if ((category & U_GC_M_MASK) != 0) classes |= kMark;
  if ((category & (U_GC_P_MASK | U_GC_S_MASK)) != 0) classes |= kSymbol;
  if ((c >= 0x4E00 && c <= 0x9FA5) || (c >= 0x3040 && c <= 0x30FF)) classes |= kIdeograph;
  return classes;
}

const ClassTable& ClassesOfBasicPlane() {
  static const auto* const table = [] {
    auto* classes = new ClassTable;
    for (uint32_t c = 0; c < 0x10000; ++c) (*classes)[c] = ClassesOf(c);
    return classes;
  }();
  return *table;
}

}  // namespace braid
