# Finds every external library once. All come from Debian packages; see
# deploy/install-dependencies.sh.
find_package(Threads REQUIRED)
find_package(Protobuf REQUIRED)
find_package(gRPC CONFIG REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(BLAS REQUIRED)
find_package(faiss CONFIG REQUIRED)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(simdjson CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(CLI11 CONFIG REQUIRED)
find_package(SQLiteCpp CONFIG REQUIRED)
find_package(prometheus-cpp CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(PkgConfig REQUIRED)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(SNAPPY REQUIRED IMPORTED_TARGET snappy)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(BROTLI REQUIRED IMPORTED_TARGET libbrotlidec)
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(EDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(EXPAT REQUIRED IMPORTED_TARGET expat)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
pkg_check_modules(ICU REQUIRED IMPORTED_TARGET icu-uc icu-i18n)
pkg_check_modules(SENTENCEPIECE REQUIRED sentencepiece)
# LIBXSMM supports x86-64 only; the plain tensor path is used without it.
pkg_check_modules(XSMM libxsmm)

# Debian's Torch package brings its own compile flags; only the libraries that include LibTorch
# link it.
find_package(Torch CONFIG REQUIRED)

# Debian's interpreter, which has python3-numpy, rather than one from a version manager earlier on
# PATH.
find_program(BRAID_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
