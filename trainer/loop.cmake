# What a run is and what it leaves on disk: no tensor library, no MPI.
braid_library(NAME run_directory
  SRCS metrics_reader.cc run_directory.cc run_evaluation.cc run_fence.cc control/process_identity.cc control/stop_request.cc
  DEPS braid::proto braid::config braid::formats nlohmann_json::nlohmann_json)
braid_library(NAME checkpoint
  SRCS
    checkpoint.cc
    checkpoint_directory.cc
    checkpoint_share.cc
    communicator.cc
  DEPS braid::proto braid::config braid::formats nlohmann_json::nlohmann_json absl::str_format)
braid_library(NAME run_spec
  SRCS launch_config.cc model_path.cc run_spec.cc starting_point.cc
  DEPS braid::proto braid::config braid::checkpoint braid::formats braid::model_config
    braid::run_directory nlohmann_json::nlohmann_json)

# What ranks tell about the machines they were started on.
braid_library(NAME rank_findings SRCS rank_findings.cc
  DEPS absl::statusor absl::strings nlohmann_json::nlohmann_json)

# Which instance is in which step: also for those who only ask.
braid_library(NAME instance_schedule SRCS instance_schedule.cc DEPS braid::formats)

braid_library(NAME trainer
  SRCS
    adamw.cc
    analysis/exciting_segments.cc
    analysis/heldout_routing.cc
    analysis/router_input.cc
    analysis/routing_analysis.cc
    analysis/routing_divergence.cc
    analysis/segment_text.cc
    analysis/utilization.cc
    background_task.cc
    checkpoint_writer.cc
    data_loader.cc
    evaluation/evaluation_plan.cc
    evaluation/evaluation_text.cc
    evaluation/fixed_weights.cc
    evaluation/heldout_split.cc
    evaluation/inference_routings.cc
    evaluation/perplexity.cc
    evaluation/score_summary.cc
    evaluation/tasks/evaluate_tasks.cc
    evaluation/text_score.cc
    evaluation/token_bytes.cc
    expert_similarity.cc
    generation/generation.cc
    generation/generation_turns.cc
    generation/loaded_model.cc
    generation/prompt.cc
    generation/sampler.cc
    generation/serving_loop.cc
    generation/text_generation.cc
    generation/text_stream.cc
    generation/token_text.cc
    gradient_buckets.cc
    gradient_clip.cc
    gradient_pass.cc
    gradient_reducer.cc
    huggingface/baked_weights.cc
    huggingface/config_json.cc
    huggingface/file_tensor.cc
    huggingface/model_export.cc
    huggingface/model_import.cc
    huggingface/output_directory.cc
    metrics_log.cc
    mpi_communicator.cc
    progress_line.cc
    rank_check.cc
    rank_heartbeat.cc
    routing_health.cc
    routing_totals.cc
    schedule.cc
    starting_model.cc
    step_metrics.cc
    stop_signal.cc
    threaded_communicator.cc
    training_loop.cc
    training_run.cc
    training_state.cc
    weight_check.cc
    weight_update.cc
  DEPS
    braid::bootstrap braid::checkpoint braid::instance_schedule braid::metrics_export braid::rank_findings braid::run_directory braid::run_spec braid::model braid::model_config braid::tasks braid::tokenizer
    braid::config braid::formats braid::proto nlohmann_json::nlohmann_json Threads::Threads
    absl::str_format)
target_link_libraries(braid_trainer
  PRIVATE MPI::MPI_CXX OpenMP::OpenMP_CXX PkgConfig::XXHASH)
# A square root that need not set errno can be vectorised.
set_source_files_properties(adamw.cc PROPERTIES COMPILE_OPTIONS "-O3;-fno-math-errno")
