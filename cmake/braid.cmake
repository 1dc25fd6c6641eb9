# Helpers for libraries, tests and protobuf definitions, used by all folders.

# Compile options of all code; braid_flags adds the selected sanitizers.
add_library(braid_plain_flags INTERFACE)
target_include_directories(braid_plain_flags INTERFACE ${CMAKE_SOURCE_DIR})
# Updates of libraries within a Debian release may deprecate functions; that only warns.
# -Wno-restrict: GCC 12 reports false positives on string concatenation (GCC bug 105651).
target_compile_options(braid_plain_flags INTERFACE
  -Wall -Wextra -Wshadow -Werror -Wno-error=deprecated-declarations
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  # In a unity batch GCC treats every .cc file as a header.
  $<$<AND:$<CXX_COMPILER_ID:GNU>,$<BOOL:${BRAID_UNITY}>>:-Wno-subobject-linkage>)

if((BRAID_ASAN_UBSAN AND BRAID_TSAN) OR (BRAID_FUZZ AND (BRAID_ASAN_UBSAN OR BRAID_TSAN)))
  message(FATAL_ERROR "BRAID_ASAN_UBSAN, BRAID_TSAN and BRAID_FUZZ exclude each other: set one of them")
endif()
if(BRAID_FUZZ AND NOT CMAKE_CXX_COMPILER_ID MATCHES Clang)
  message(FATAL_ERROR "BRAID_FUZZ needs clang++ (apt-get install clang): use the preset fuzz")
endif()
add_library(braid_flags INTERFACE)
target_link_libraries(braid_flags INTERFACE braid_plain_flags)
if(BRAID_ASAN_UBSAN)
  target_compile_options(braid_flags INTERFACE
    -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer
    # Sanitizer checks hide initializations from GCC: <regex> alone causes false positives.
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

# A whole library or test program in one translation unit takes the least time to build once; small
# batches take less time to build again after a change (preset `develop`).
set(BRAID_BATCH_SIZE 0 CACHE STRING "Most source files in a translation unit; 0: all of a target")

# Compiles the `sources` of a target in as few batches as BRAID_BATCH_SIZE allows, all of about the same
# size. Sources that are optimized (`fast`) take longer, so their batches are half as large.
function(braid_batches target sources fast)
  set(size 0)
  if(BRAID_BATCH_SIZE GREATER 0)
    list(LENGTH sources count)
    set(most ${BRAID_BATCH_SIZE})
    if(fast)
      math(EXPR most "(${BRAID_BATCH_SIZE} + 1) / 2")
    endif()
    math(EXPR batches "(${count} + ${most} - 1) / ${most}")
    math(EXPR size "(${count} + ${batches} - 1) / ${batches}")
  endif()
  set_target_properties(${target} PROPERTIES
    UNITY_BUILD ${BRAID_UNITY} UNITY_BUILD_BATCH_SIZE ${size})
endfunction()

# braid_library(NAME <name> SRCS ... [DEPS ...] [FAST]) defines the static library braid_<name>,
# linked as braid::<name>, compiled with -O2 if it is FAST. Its files are compiled together, so names in
# anonymous namespaces must be unique within a library.
function(braid_library)
  cmake_parse_arguments(ARG "FAST" "NAME" "SRCS;DEPS" ${ARGN})
  add_library(braid_${ARG_NAME} STATIC ${ARG_SRCS})
  add_library(braid::${ARG_NAME} ALIAS braid_${ARG_NAME})
  target_link_libraries(braid_${ARG_NAME} PUBLIC braid_flags ${ARG_DEPS})
  braid_batches(braid_${ARG_NAME} "${ARG_SRCS}" ${ARG_FAST})
  if(ARG_FAST)
    target_compile_options(braid_${ARG_NAME} PRIVATE $<$<CONFIG:Release>:-O2>)
  endif()
endfunction()

# braid_generated(<library> <file>) gives a generated source of the library a target of its own. Otherwise
# the file, and so the library's compilation, waits until all libraries are built that the library links.
function(braid_generated library file)
  get_filename_component(stem ${file} NAME_WE)
  add_custom_target(${stem} DEPENDS ${file})
  add_dependencies(braid_${library} ${stem})
endfunction()

# braid_tests(NAME <program> SRCS ... [DEPS ...] [SLOW <file stem>...] [ENVIRONMENT ...] [FAST]
#   [TOGETHER])
# defines one GoogleTest program and, for each file x_test.cc in it, a ctest entry x_test that runs
# the suites defined there. Each file has its own namespace, so that files can be compiled in
# batches. FAST optimizes tests that compute much themselves. TOGETHER is for programs that link
# LibTorch, which takes half a second to load: tests/run.sh runs all files that are not SLOW in one process.
function(braid_tests)
  cmake_parse_arguments(ARG "FAST;TOGETHER" "NAME" "SRCS;DEPS;SLOW;ENVIRONMENT" ${ARGN})
  add_executable(${ARG_NAME} ${ARG_SRCS})
  set_target_properties(${ARG_NAME} PROPERTIES
    RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  braid_batches(${ARG_NAME} "${ARG_SRCS}" ${ARG_FAST})
  target_link_libraries(${ARG_NAME} PRIVATE braid_flags ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  if(NOT ARG_FAST)
    target_compile_options(${ARG_NAME} PRIVATE $<$<CONFIG:Release>:-O0>)
  endif()
  set(entries)
  set(suites_together)
  foreach(source ${ARG_SRCS})
    get_filename_component(stem ${source} NAME_WE)
    if(NOT stem MATCHES "_test$")
      continue()
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})
    file(STRINGS ${source} cases REGEX "^(TYPED_)?TEST(_F|_P)?\\(")
    set(suites)
    foreach(case ${cases})
      string(REGEX REPLACE "^[A-Z_]+\\(([A-Za-z0-9_]+).*" "\\1" suite "${case}")
      list(APPEND suites "${suite}.*" "*/${suite}.*" "${suite}/*")
    endforeach()
    list(REMOVE_DUPLICATES suites)
    list(JOIN suites ":" filter)
    add_test(NAME ${stem} COMMAND ${ARG_NAME} --gtest_filter=${filter})
    list(APPEND entries ${stem})
    # Slow tests start first, so that none of them is left alone at the end.
    if(stem IN_LIST ARG_SLOW)
      set_tests_properties(${stem} PROPERTIES LABELS slow COST 100)
    elseif(ARG_TOGETHER)
      set_tests_properties(${stem} PROPERTIES LABELS "fast;file" COST 1)
      list(APPEND suites_together ${suites})
    else()
      set_tests_properties(${stem} PROPERTIES LABELS fast COST 1)
    endif()
  endforeach()
  if(ARG_TOGETHER)
    list(JOIN suites_together ":" filter)
    add_test(NAME ${ARG_NAME} COMMAND ${ARG_NAME} --gtest_filter=${filter} CONFIGURATIONS Together)
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS fast COST 100)
    list(APPEND entries ${ARG_NAME})
  endif()
  set_tests_properties(${entries} PROPERTIES TIMEOUT 600)
  if(ARG_ENVIRONMENT)
    set_tests_properties(${entries} PROPERTIES ENVIRONMENT "${ARG_ENVIRONMENT}")
  endif()
  if(BRAID_ASAN_UBSAN)
    set_property(TEST ${entries} PROPERTY ENVIRONMENT_MODIFICATION
      "LSAN_OPTIONS=set:suppressions=${CMAKE_SOURCE_DIR}/tests/leak_suppressions.txt")
  endif()
endfunction()

# braid_starts_mpi_ranks(<test>...) turns leak detection off for tests that start MPI ranks: Open MPI's
# plug-ins leak memory and are unloaded before the report, so no suppression can match their names.
function(braid_starts_mpi_ranks)
  if(BRAID_ASAN_UBSAN)
    set_property(TEST ${ARGV} APPEND PROPERTY ENVIRONMENT_MODIFICATION
      "ASAN_OPTIONS=set:detect_leaks=0")
  endif()
endfunction()

# braid_proto(NAME <name> PROTOS ... SERVICES ...) defines the library braid_<name> with the messages of
# the .proto files below the current folder, and the global property braid_<name>_stubs with the files of
# the gRPC stubs of SERVICES. Include them as "a/b.pb.h" and "a/b.grpc.pb.h".
function(braid_proto)
  cmake_parse_arguments(ARG "" "NAME" "PROTOS;SERVICES" ${ARGN})
  set(messages)
  set(stubs)
  set(generated ${CMAKE_CURRENT_BINARY_DIR}/generated)
  file(MAKE_DIRECTORY ${generated})
  foreach(proto ${ARG_PROTOS} ${ARG_SERVICES})
    string(REGEX REPLACE "\\.proto$" "" stem ${proto})
    get_filename_component(folder ${CMAKE_CURRENT_BINARY_DIR}/${proto} DIRECTORY)
    set(files ${stem}.pb.cc ${stem}.pb.h)
    list(TRANSFORM files PREPEND ${CMAKE_CURRENT_BINARY_DIR}/ OUTPUT_VARIABLE outputs)
    list(APPEND messages ${outputs})
    set(grpc)
    if(proto IN_LIST ARG_SERVICES)
      set(grpc --grpc_out=${generated} --plugin=protoc-gen-grpc=$<TARGET_FILE:gRPC::grpc_cpp_plugin>)
      set(grpc_files ${stem}.grpc.pb.cc ${stem}.grpc.pb.h)
      list(APPEND files ${grpc_files})
      list(TRANSFORM grpc_files PREPEND ${CMAKE_CURRENT_BINARY_DIR}/)
      list(APPEND outputs ${grpc_files})
      list(APPEND stubs ${grpc_files})
    endif()
    list(TRANSFORM files PREPEND ${generated}/)
    add_custom_command(
      OUTPUT ${outputs}
      COMMAND protobuf::protoc -I ${CMAKE_CURRENT_SOURCE_DIR}
        --cpp_out=${generated} ${grpc} ${proto}
      # Keeps the times of unchanged files, so that only users of changed messages are compiled.
      COMMAND ${CMAKE_COMMAND} -E copy_if_different ${files} ${folder}
      WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}
      DEPENDS ${ARG_PROTOS} ${ARG_SERVICES})
  endforeach()
  add_library(braid_${ARG_NAME} STATIC ${messages})
  add_library(braid::${ARG_NAME} ALIAS braid_${ARG_NAME})
  target_include_directories(braid_${ARG_NAME} SYSTEM PUBLIC ${CMAKE_CURRENT_BINARY_DIR})
  target_link_libraries(braid_${ARG_NAME} PUBLIC protobuf::libprotobuf)
  if(BRAID_BATCH_SIZE EQUAL 0)
    # Two names repeat in all generated files.
    set_target_properties(braid_${ARG_NAME} PROPERTIES
      UNITY_BUILD ${BRAID_UNITY} UNITY_BUILD_BATCH_SIZE 0 UNITY_BUILD_UNIQUE_ID BRAID_FILE
      UNITY_BUILD_CODE_BEFORE_INCLUDE
"#define BRAID_JOINED(a, b) a##b
#define BRAID_OF_FILE(name, file) BRAID_JOINED(name, file)
#define schemas BRAID_OF_FILE(schemas_, BRAID_FILE)
#define file_default_instances BRAID_OF_FILE(file_default_instances_, BRAID_FILE)")
  endif()
  set_property(GLOBAL PROPERTY braid_${ARG_NAME}_stubs ${stubs})
endfunction()
