// The claims of an experiment as a table for a terminal.
#ifndef BRAID_REPRODUCE_CLAIMS_TABLE_H_
#define BRAID_REPRODUCE_CLAIMS_TABLE_H_

#include <ostream>
#include <span>

#include "reproduce/claim.h"

namespace braid {

// Each claim with its verdict, and below it a row for each judged effect and what the verdict alone
// would hide. Says above where there is one seed. At most 80 columns.
void PrintClaims(std::span<const Claim> claims, std::ostream& out);

}  // namespace braid

#endif  // BRAID_REPRODUCE_CLAIMS_TABLE_H_
