# What states of a run mean, for its readers too.
braid_library(NAME run_state SRCS control/run_state.cc DEPS braid::proto)

# Keeping one run alive: processes and files, no gRPC calls.
braid_library(NAME supervision
  SRCS
    control/adoption.cc
    control/attempt_end.cc
    control/attempt_files.cc
    control/attempt_process.cc
    control/child_program.cc
    control/heartbeat_watch.cc
    control/host_probe.cc
    control/log_tail.cc
    control/metrics_follower.cc
    control/mpirun_notice.cc
    control/rank_hosts.cc
    control/restart_policy.cc
    control/run_event_log.cc
    control/run_history.cc
    control/run_journal.cc
    control/run_process.cc
    control/slow_rank_detector.cc
    control/subprocess.cc
    control/supervisor.cc
    control/supervisor_lock.cc
    control/supervisor_process.cc
  DEPS braid::proto braid::formats braid::run_directory braid::run_spec braid::run_state
    nlohmann_json::nlohmann_json Threads::Threads)

# Starting runs here, on other machines and through schedulers; no gRPC calls.
braid_library(NAME launch
  SRCS
    control/kubernetes_jobs.cc
    control/kubernetes_manifest.cc
    control/launch_lock.cc
    control/launcher.cc
    control/mpirun_command.cc
    control/scheduled_run.cc
    control/scheduler.cc
    control/slurm_jobs.cc
    control/slurm_script.cc
  DEPS braid::proto braid::formats braid::run_directory braid::run_spec braid::supervision
    nlohmann_json::nlohmann_json Threads::Threads)

# The page that draws a routing analysis.
braid_library(NAME routing_page
  SRCS analysis/expert_sections.cc analysis/routing_page.cc analysis/routing_sections.cc
  DEPS braid::proto braid::report)

# Launching, watching and stopping runs; no LibTorch, no MPI.
braid_library(NAME control
  SRCS
    control/analysis_service.cc
    control/generation_service.cc
    control/model_directory.cc
    control/kept_results.cc
    control/model_child.cc
    control/model_server.cc
    control/model_version.cc
    control/run_event_follower.cc
    control/run_descriptions.cc
    control/run_event_source.cc
    control/run_keeper.cc
    control/run_status.cc
    control/run_store.cc
    control/serving_child.cc
    control/training_service.cc
  DEPS braid::proto braid::grpc_status braid::formats braid::launch braid::metrics_export braid::model_config braid::report
    braid::tasks
    braid::routing_page braid::run_directory braid::run_spec braid::supervision SQLiteCpp nlohmann_json::nlohmann_json Threads::Threads)
