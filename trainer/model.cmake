braid_library(NAME model_config
  SRCS
    model/initial_weights.cc
    model/parameter_layout.cc
    model_config.cc
    model_presets.cc
  DEPS braid::proto braid::nearest_word absl::status absl::statusor absl::strings)

# One translation unit: the tensor library's headers cost seconds a file.
braid_library(NAME model
  SRCS
    kernels/causal_attention.cc
    kernels/cross_entropy.cc
    kernels/rms_norm.cc
    kernels/soft_merge.cc
    kernels/swiglu.cc
    model/cached_decoder.cc
    model/gradient_hooks.cc
    model/language_model.cc
    model/model_threads.cc
    model/segment_router.cc
    model/transformer.cc
    model/upcycling.cc
  DEPS braid::model_config ${CMAKE_DL_LIBS})
set_target_properties(braid_model PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 0)
# GCC 14 gives false alarms inside torch::autograd::Function::apply.
target_compile_options(braid_model PRIVATE
  $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds;-Wno-stringop-overflow>)
target_include_directories(braid_model SYSTEM PRIVATE ${TORCH_INCLUDE_DIRS})
target_link_libraries(braid_model PRIVATE ${TORCH_LIBRARIES})
