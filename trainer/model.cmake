braid_library(NAME model_config
  SRCS
    forecast.cc
    model/activation_memory.cc
    model/initial_weights.cc
    model/parameter_layout.cc
    model_config.cc
    model_flops.cc
    model_presets.cc
  DEPS braid::proto braid::nearest_word absl::status absl::statusor absl::strings)

# The arithmetic kernels of processors: plain arrays, no tensors.
braid_library(NAME kernels
  SRCS
    kernels/ffn_group_pass.cc
    kernels/fused_attention.cc
    kernels/fused_ffn.cc
    kernels/scratch.cc
    kernels/small_gemm.cc
    kernels/token_panels.cc
    kernels/vector_kernels.cc
  DEPS braid::formats)
target_link_libraries(braid_kernels PRIVATE OpenMP::OpenMP_CXX)
if(XSMM_FOUND)
  target_compile_definitions(braid_kernels PRIVATE BRAID_HAS_XSMM)
  target_include_directories(braid_kernels SYSTEM PRIVATE ${XSMM_INCLUDE_DIRS})
  # The real BLAS: the library's own substitute would take the place of its
  # functions in the whole program.
  target_link_libraries(braid_kernels PRIVATE ${XSMM_LINK_LIBRARIES} BLAS::BLAS Threads::Threads
    ${CMAKE_DL_LIBS})
endif()

# braid_vector_level(<level> <bytes> <option>...): the vector kernels once more,
# for one instruction set.
function(braid_vector_level level bytes)
  add_library(braid_vector_${level} OBJECT kernels/vector_kernels_level.cc)
  target_link_libraries(braid_vector_${level} PRIVATE braid_flags)
  target_compile_definitions(braid_vector_${level} PRIVATE
    BRAID_VECTOR_LEVEL=${level} BRAID_VECTOR_BYTES=${bytes})
  # Vectorised exp comes with fast math; the kernels rely on nothing it gives up.
  # GCC 14 gives false alarms on vectors that are set element by element.
  target_compile_options(braid_vector_${level} PRIVATE
    -O3 -ffast-math -fopenmp-simd -Wno-psabi -Wno-maybe-uninitialized ${ARGN})
  target_sources(braid_kernels PRIVATE $<TARGET_OBJECTS:braid_vector_${level}>)
endfunction()
braid_vector_level(baseline 16)
if(CMAKE_SYSTEM_PROCESSOR STREQUAL x86_64)
  target_compile_definitions(braid_kernels PRIVATE BRAID_VECTOR_X86)
  braid_vector_level(avx2 32 -mavx2 -mfma)
  braid_vector_level(avx512 64
    -mavx512f -mavx512vl -mavx512bw -mavx512dq -mprefer-vector-width=512)
endif()

# One translation unit: the tensor library's headers cost seconds a file.
braid_library(NAME model
  SRCS
    kernels/branch_attention.cc
    kernels/causal_attention.cc
    kernels/cross_entropy.cc
    kernels/dense_ffn.cc
    kernels/fused_ffn_function.cc
    kernels/rms_norm.cc
    kernels/soft_merge.cc
    kernels/swiglu.cc
    model/advance.cc
    model/cached_decoder.cc
    model/continuation_scores.cc
    model/gradient_hooks.cc
    model/language_model.cc
    model/matrix_product_peak.cc
    model/merged_model.cc
    model/model_threads.cc
    model/routing/expert_choice.cc
    model/routing/expert_choice_routers.cc
    model/routing/incremental_ffn.cc
    model/routing/merging_routers.cc
    model/routing/router.cc
    model/routing/routing_weights.cc
    model/routing/segment_incremental_ffn.cc
    model/routing/sparse_ffn.cc
    model/transformer.cc
    model/upcycling.cc
  DEPS braid::kernels braid::model_config ${CMAKE_DL_LIBS})
set_target_properties(braid_model PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
# GCC 14 gives false alarms inside torch::autograd::Function::apply.
target_compile_options(braid_model PRIVATE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>)
target_include_directories(braid_model SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
target_link_libraries(braid_model PRIVATE ${TORCH_LIBRARIES})
