# libsentencepiece brings a Protocol Buffers runtime of its own: only this
# module links it, and programs open the module with private symbols. Never
# instrumented: sanitized programs give it a namespace, hence a C library, of
# its own.
add_library(braid_sentencepiece SHARED sentencepiece_module.cc)
target_include_directories(braid_sentencepiece SYSTEM PRIVATE ${SENTENCEPIECE_INCLUDE_DIRS})
target_link_directories(braid_sentencepiece PRIVATE ${SENTENCEPIECE_LIBRARY_DIRS})
target_link_libraries(braid_sentencepiece PRIVATE braid_plain_flags ${SENTENCEPIECE_LIBRARIES})
set_target_properties(braid_sentencepiece PROPERTIES CXX_VISIBILITY_PRESET hidden)

braid_library(NAME tokenizer
  SRCS
    protobuf_wire.cc
    sentencepiece_library.cc
    sentencepiece_model_check.cc
    tokenizer.cc
    tokenizer_process.cc
    tokenizer_training.cc
    word_boundaries.cc
    word_encoder.cc
  DEPS braid::formats absl::cleanup absl::flat_hash_map absl::status absl::statusor absl::strings)
target_link_libraries(braid_tokenizer PRIVATE ${CMAKE_DL_LIBS})
# Lies beside the module, where libbraid_tokenizer looks for it.
add_executable(braid-tokenizer-trainer tokenizer_trainer.cc)
target_link_libraries(braid-tokenizer-trainer PRIVATE braid_plain_flags braid_sentencepiece)
set_target_properties(braid-tokenizer-trainer PROPERTIES
  RUNTIME_OUTPUT_DIRECTORY ${CMAKE_LIBRARY_OUTPUT_DIRECTORY}
  BUILD_RPATH_USE_ORIGIN ON INSTALL_RPATH "$ORIGIN")
add_dependencies(braid_tokenizer braid_sentencepiece braid-tokenizer-trainer)
