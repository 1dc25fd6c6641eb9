braid_library(NAME corpus
  SRCS
    corpus_files.cc
    corpus_reader.cc
    document_splitter.cc
    file_version.cc
    json_record.cc
    line_reader.cc
    machine_corpus.cc
    machine_text.cc
    manual_page_text.cc
    text_source.cc
  DEPS braid::proto braid::nearest_word braid::formats absl::status absl::statusor absl::strings absl::flat_hash_set
    absl::str_format)
target_link_libraries(braid_corpus PRIVATE
  simdjson::simdjson nlohmann_json::nlohmann_json PkgConfig::ZSTD PkgConfig::XXHASH ZLIB::ZLIB)
