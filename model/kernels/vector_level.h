// Names of what is compiled once per instruction set (vector_kernels_level.cc,
// vector_dropout_level.cc): each name ends in the level, such as DropUnits_avx2.
#ifndef BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
#define BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_

#include "model/kernels/unit_dropout.h"

#define BRAID_JOIN(a, b) a##b
#define BRAID_WITH_LEVEL(name, level) BRAID_JOIN(name, level)
#define BRAID_TEXT(level) #level
#define BRAID_NAME_OF(level) BRAID_TEXT(level)
#define BRAID_KERNELS_OF(level) BRAID_WITH_LEVEL(vector_kernels_, level)
#define BRAID_DROP_UNITS BRAID_WITH_LEVEL(DropUnits_, BRAID_VECTOR_LEVEL)
#define BRAID_CONCRETE_GRADIENT BRAID_WITH_LEVEL(ConcreteGradient_, BRAID_VECTOR_LEVEL)

namespace braid {

// VectorKernels documents them.
void BRAID_DROP_UNITS(const DropoutTile& tile, float* values);
float BRAID_CONCRETE_GRADIENT(const DropoutTile& tile, const float* dup, const float* up);

}  // namespace braid

#endif  // BRAID_MODEL_KERNELS_VECTOR_LEVEL_H_
