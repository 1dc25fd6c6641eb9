# Launching, watching and stopping runs; no LibTorch, no MPI.
braid_library(NAME control
  SRCS
    control/analysis_service.cc
    control/child_program.cc
    control/launcher.cc
    control/model_child.cc
    control/process_identity.cc
    control/run_event_log.cc
    control/run_event_follower.cc
    control/run_event_source.cc
    control/run_keeper.cc
    control/run_process.cc
    control/run_state.cc
    control/run_status.cc
    control/run_stopper.cc
    control/run_store.cc
    control/subprocess.cc
    control/training_service.cc
  DEPS braid::proto braid::grpc_status braid::formats braid::model_config braid::report
    braid::run_directory braid::run_spec SQLiteCpp nlohmann_json::nlohmann_json Threads::Threads)
