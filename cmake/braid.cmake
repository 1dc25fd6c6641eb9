# The three helpers all folders use.

# What all code is compiled with; braid_flags adds the sanitizers asked for.
add_library(braid_plain_flags INTERFACE)
target_include_directories(braid_plain_flags INTERFACE ${CMAKE_SOURCE_DIR})
# -Wno-restrict: GCC 12 gives false alarms on string concatenation (GCC bug 105651).
target_compile_options(braid_plain_flags INTERFACE -Wall -Wextra -Wshadow -Werror
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>)

add_library(braid_flags INTERFACE)
target_link_libraries(braid_flags INTERFACE braid_plain_flags)
if(BRAID_ASAN_UBSAN)
  target_compile_options(braid_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    # Its own checks keep GCC from seeing what is set: <regex> alone gives alarms.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(braid_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(braid_flags INTERFACE BRAID_ASAN=1)
elseif(BRAID_FUZZ)
  target_compile_options(braid_flags INTERFACE
    -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=undefined
    -fno-omit-frame-pointer)
  target_link_options(braid_flags INTERFACE -fsanitize=address,undefined)
  target_compile_definitions(braid_flags INTERFACE BRAID_ASAN=1)
elseif(BRAID_TSAN)
  target_compile_options(braid_flags INTERFACE -fsanitize=thread)
  target_link_options(braid_flags INTERFACE -fsanitize=thread)
  target_compile_definitions(braid_flags INTERFACE BRAID_TSAN=1)
endif()

# braid_library(NAME <name> SRCS ... [DEPS ...]): static library braid_<name>,
# linked as braid::<name>.
function(braid_library)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(braid_${ARG_NAME} STATIC ${ARG_SRCS})
  add_library(braid::${ARG_NAME} ALIAS braid_${ARG_NAME})
  target_link_libraries(braid_${ARG_NAME} PUBLIC braid_flags ${ARG_DEPS})
endfunction()

# braid_test(NAME <name> SRCS ... [DEPS ...] [LABELS fast|slow|nightly]): a
# GoogleTest program that ctest runs whole.
function(braid_test)
  cmake_parse_arguments(ARG "" "NAME" "SRCS;DEPS;LABELS" ${ARGN})
  if(NOT ARG_LABELS)
    set(ARG_LABELS fast)
  endif()
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  target_link_libraries(${ARG_NAME} PRIVATE braid_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 600)
  if(BRAID_ASAN_UBSAN)
    set_property(TEST ${ARG_NAME} PROPERTY ENVIRONMENT_MODIFICATION
      "LSAN_OPTIONS=set:suppressions=${CMAKE_SOURCE_DIR}/tests/leak_suppressions.txt")
  endif()
endfunction()

# braid_starts_mpi_ranks(<test>...): Open MPI's plug-ins leak what they allocated when they are
# unloaded, and their names with it, so that no suppression could match.
function(braid_starts_mpi_ranks)
  if(BRAID_ASAN_UBSAN)
    set_property(TEST ${ARGV} APPEND PROPERTY ENVIRONMENT_MODIFICATION
      "ASAN_OPTIONS=set:detect_leaks=0")
  endif()
endfunction()

# braid_proto(NAME <name> PROTOS a/b.proto ...): messages and gRPC stubs of
# .proto files below the current folder; include as "a/b.pb.h".
function(braid_proto)
  cmake_parse_arguments(ARG "" "NAME" "PROTOS" ${ARGN})
  set(generated)
  foreach(proto ${ARG_PROTOS})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    set(outputs)
    foreach(suffix .pb.cc .pb.h .grpc.pb.cc .grpc.pb.h)
      list(APPEND outputs ${CMAKE_CURRENT_BINARY_DIR}/${stem}${suffix})
    endforeach()
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc -I ${CMAKE_CURRENT_SOURCE_DIR}
        --cpp_out=${CMAKE_CURRENT_BINARY_DIR} --grpc_out=${CMAKE_CURRENT_BINARY_DIR}
        --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin> ${proto}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      DEPENDS ${ARG_PROTOS})
    list(APPEND generated ${outputs})
  endforeach()
  add_library(braid_${ARG_NAME} STATIC ${generated})
  add_library(braid::${ARG_NAME} ALIAS braid_${ARG_NAME})
  target_include_directories(braid_${ARG_NAME} SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(braid_${ARG_NAME} PUBLIC protobuf::libprotobuf gRPC::grpc++)
endfunction()
