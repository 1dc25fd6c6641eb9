// Student's t distribution for whole degrees of freedom.
#ifndef BRAID_EVALUATION_STATISTICS_STUDENT_T_H_
#define BRAID_EVALUATION_STATISTICS_STUDENT_T_H_

#include <cstdint>

namespace braid {

// Returns P(T <= t) with `degrees` >= 1 degrees of freedom (Abramowitz and Stegun, 26.7.3 and
// 26.7.4: finite sums, exact up to rounding).
double StudentCdf(double t, int64_t degrees);

}  // namespace braid

#endif  // BRAID_EVALUATION_STATISTICS_STUDENT_T_H_
