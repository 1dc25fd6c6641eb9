// The claims of an experiment as a table for a terminal.
#ifndef BRAID_REPRODUCE_CLAIMS_TABLE_H_
#define BRAID_REPRODUCE_CLAIMS_TABLE_H_

#include <ostream>
#include <span>

#include "reproduce/claim.h"

namespace braid {

// Prints each claim with its verdict, followed by a row for each judged effect and by its cautions.
// Begins with a remark if an effect was measured with one seed. Uses at most 80 columns.
void PrintClaims(std::span<const Claim> claims, std::ostream& out);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIMS_TABLE_H_
