# Finds every external library once. All come from Debian packages; see
# deploy/install-dependencies.sh.

# Fails with what to do if `name` was not found; errors of CMake only name the file that is missing.
function(braid_require name found)
  if(NOT found)
    message(FATAL_ERROR "${name} was not found: run deploy/install-dependencies.sh, which installs "
      "everything that braid needs on Debian, or install ${name} by hand")
  endif()
endfunction()

# braid_find_package(<package> ...): find_package.
macro(braid_find_package package)
  find_package(${package} ${ARGN})
  braid_require(${package} "${${package}_FOUND}")
endmacro()

# braid_find_modules(<prefix> <pkg-config module>...): the target PkgConfig::<prefix>.
macro(braid_find_modules prefix)
  pkg_check_modules(${prefix} IMPORTED_TARGET ${ARGN})
  braid_require("${ARGN}" "${${prefix}_FOUND}")
endmacro()

braid_find_package(Threads)
braid_find_package(Protobuf)
if(NOT TARGET protobuf::protoc)
  braid_require(protoc FALSE)
endif()
braid_find_package(gRPC CONFIG)
braid_find_package(absl CONFIG)
braid_find_package(OpenMP COMPONENTS CXX)
braid_find_package(BLAS)
braid_find_package(faiss CONFIG)
braid_find_package(MPI COMPONENTS CXX)
braid_find_package(simdjson CONFIG)
braid_find_package(nlohmann_json CONFIG)
braid_find_package(CLI11 CONFIG)
braid_find_package(SQLiteCpp CONFIG)
braid_find_package(prometheus-cpp CONFIG)
braid_find_package(ZLIB)
braid_find_package(GTest CONFIG)
braid_find_package(PkgConfig)
braid_find_modules(ZSTD libzstd)
braid_find_modules(SNAPPY snappy)
braid_find_modules(LZ4 liblz4)
braid_find_modules(BROTLI libbrotlidec)
braid_find_modules(ISAL libisal)
braid_find_modules(XXHASH libxxhash)
braid_find_modules(EDIT libedit)
braid_find_modules(EXPAT expat)
braid_find_modules(RE2 re2)
braid_find_modules(ICU icu-uc icu-i18n)
braid_find_modules(SENTENCEPIECE sentencepiece)
# LIBXSMM supports x86-64 only; the plain tensor path is used without it.
pkg_check_modules(XSMM libxsmm)

# Debian's Torch package brings its own compile flags; only the libraries that include LibTorch
# link it.
braid_find_package(Torch CONFIG)

# Debian's interpreter, which has python3-numpy, rather than one from a version manager earlier on
# PATH.
find_program(BRAID_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
