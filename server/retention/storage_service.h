// StorageService (storage.proto): deletes jobs and runs of a home.
//
// Users may delete what they may cancel and stop: their own jobs and runs; operators, those of all.
// Several processes may serve the same home; HOME/delete.lock lets one of them delete at a time.
// Nothing is kept in memory between calls.
#ifndef BRAID_SERVER_RETENTION_STORAGE_SERVICE_H_
#define BRAID_SERVER_RETENTION_STORAGE_SERVICE_H_

#include <grpcpp/impl/codegen/service_type.h>

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace braid {

struct StorageOptions {
  std::filesystem::path home;
  // Directory of the databases of jobs and runs; empty: `home`.
  std::filesystem::path state = {};
  // Receives one line for each job and run that was deleted: what, whose, by whom.
  std::function<void(const std::string&)> log = [](const std::string&) {};
};

std::unique_ptr<grpc::Service> MakeStorageService(const StorageOptions& options);

}  // namespace braid

#endif  // BRAID_SERVER_RETENTION_STORAGE_SERVICE_H_
