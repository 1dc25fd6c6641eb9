# The durable staged job and its service.
braid_library(NAME pipeline_partition
  SRCS document_partition.cc
  DEPS braid::pipeline_core braid::retrieval absl::statusor)
braid_library(NAME pipeline
  SRCS
    corpus_description.cc
    corpus_spec.cc
    deduplicate_stage.cc
    document_domains.cc
    document_store.cc
    domain_summary.cc
    embed_stage.cc
    heldout_overlap.cc
    ingest_stage.cc
    job_event_source.cc
    job_explanation.cc
    job_id.cc
    job_runner.cc
    job_state.cc
    job_store.cc
    job_table.cc
    job_worker.cc
    json_file.cc
    neighbor_stage.cc
    order_stage.cc
    pack_stage.cc
    pipeline_service.cc
    resume_point.cc
    retry_policy.cc
    stage_key.cc
    stage_meter.cc
    stage_store.cc
    tokenize_stage.cc
  DEPS braid::pipeline_core braid::pipeline_partition braid::corpus braid::tokenizer
    braid::contriever_files braid::retrieval braid::retrieval_services braid::proto braid::nearest_word braid::formats
    braid::grpc_status gRPC::grpc++
    nlohmann_json::nlohmann_json absl::status absl::statusor absl::strings Threads::Threads)
target_link_libraries(braid_pipeline PRIVATE SQLiteCpp PkgConfig::XXHASH)
