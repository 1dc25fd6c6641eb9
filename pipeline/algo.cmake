# Pure algorithms of the pipeline: no gRPC, no files but the provenance tables.
braid_library(NAME pipeline_core
  SRCS random_permutation.cc similarity_order.cc listers.cc partitioned_order.cc kept_neighbors.cc
    deduplicate.cc near_duplicate_index.cc packing.cc instance_layout.cc
    provenance.cc ordering_report.cc heldout_split.cc
  DEPS braid::formats absl::status absl::statusor Threads::Threads
    PkgConfig::XXHASH nlohmann_json::nlohmann_json)
