#include "server/retention/storage_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/file_lock.h"
#include "base/status_macros.h"
#include "braid/v1/storage.grpc.pb.h"
#include "rpc/grpc_caller.h"
#include "rpc/grpc_status.h"
#include "server/retention/home_deletion.h"
#include "server/retention/stored_item.h"

namespace braid {
namespace {

constexpr std::chrono::milliseconds kLockPoll{50};

absl::Status UnknownItem(const std::string& id) {
  return absl::NotFoundError(
      absl::StrCat("there is no job or run \"", id, "\"; list them with: braid jobs, braid runs"));
}

absl::Status NotEnded(const StoredItem& item, const std::filesystem::path& home) {
  if (item.is_unlisted) {
    return absl::FailedPreconditionError(absl::StrCat(
        item.id,
        " is not in the list of runs, so it cannot be deleted by its id; if no process "
        "runs it, remove its directory, ",
        (std::filesystem::absolute(home) / "runs" / item.id).lexically_normal().string()));
  }
  return absl::FailedPreconditionError(absl::StrCat(
      item.id, " is ", item.state, "; ",
      item.is_run ? "stop it first: braid stop " : "cancel it first: braid cancel ", item.id));
}

// A call that deletes items one after the other and collects their outcomes.
class DeletionCall {
 public:
  DeletionCall(HomeDeletion* deletion, const StorageOptions& options,
               const grpc::ServerContext& context, bool dry_run)
      : deletion_(deletion), options_(options), context_(context), by_(PrincipalOf(context)) {
    response_.set_dry_run(dry_run);
  }

  using Action = absl::StatusOr<int64_t> (HomeDeletion::*)(const std::string&,
                                                           const HomeDeletion::Options&);

  // Deletes `item` unless it may not be deleted, which is recorded. CANCELLED when the caller is
  // gone.
  absl::Status Apply(Action action, const StoredItem& item) {
    if (context_.IsCancelled()) return absl::CancelledError("the client has disconnected");
    v1::Deletion* const result = response_.add_deletions();
    result->set_id(item.id);
    result->set_name(item.name);
    result->set_principal(item.principal);
    result->set_finished_at(item.finished);
    const HomeDeletion::Options how = {.by = by_, .dry_run = response_.dry_run(), .gone = gone_};
    const absl::StatusOr<int64_t> bytes = (deletion_->*action)(item.id, how);
    if (!bytes.ok()) {
      result->set_kept_because(std::string(bytes.status().message()));
      failure_.Update(bytes.status());
      return absl::OkStatus();
    }
    // A run that only loses checkpoints still uses its dataset.
    if (action == &HomeDeletion::Delete) gone_.insert(item.id);
    AddFreed(*bytes, result);
    if (response_.dry_run()) return absl::OkStatus();
    options_.log(absl::StrCat("deleted ", item.id, " of ", item.principal, " for ", by_, ", ",
                              *bytes, " bytes freed"));
    return absl::OkStatus();
  }

  // Reports the deletion of an earlier call, which this one has completed.
  void Report(const std::string& id, int64_t bytes) {
    v1::Deletion* const result = response_.add_deletions();
    result->set_id(id);
    AddFreed(bytes, result);
    options_.log(
        absl::StrCat("completed the interrupted deletion of ", id, ", ", bytes, " bytes freed"));
  }

  // Returns the first error of Apply().
  const absl::Status& failure() const { return failure_; }
  v1::DeletionResponse& response() { return response_; }

 private:
  void AddFreed(int64_t bytes, v1::Deletion* result) {
    result->set_freed_bytes(bytes);
    response_.set_freed_bytes(response_.freed_bytes() + bytes);
  }

  HomeDeletion* const deletion_;
  const StorageOptions& options_;
  const grpc::ServerContext& context_;
  const std::string by_;
  std::set<std::string> gone_;
  absl::Status failure_;
  v1::DeletionResponse response_;
};

class StorageServiceImpl final : public v1::StorageService::Service {
 public:
  explicit StorageServiceImpl(StorageOptions options) : options_(std::move(options)) {}

  grpc::Status Delete(grpc::ServerContext* context, const v1::DeleteRequest* request,
                      v1::DeletionResponse* response) override {
    return Answer(DeleteById(*request, *context), response);
  }

  grpc::Status CollectGarbage(grpc::ServerContext* context,
                              const v1::CollectGarbageRequest* request,
                              v1::DeletionResponse* response) override {
    return Answer(Collect(*request, *context), response);
  }

 private:
  static grpc::Status Answer(absl::StatusOr<v1::DeletionResponse> answer,
                             v1::DeletionResponse* response) {
    if (!answer.ok()) return ToGrpc(answer.status());
    *response = *std::move(answer);
    return grpc::Status::OK;
  }

  // Waits until no other call or process deletes from the home.
  absl::StatusOr<FileLock> Lock(const grpc::ServerContext& context) const {
    while (true) {
      // Polled, because a wait for the lock would not end when the client disconnects.
      ASSIGN_OR_RETURN(std::optional<FileLock> lock,
                       FileLock::TryTake(options_.home / "delete.lock"));
      if (lock) return *std::move(lock);
      if (context.IsCancelled()) return absl::CancelledError("the client has disconnected");
      std::this_thread::sleep_for(kLockPoll);
    }
  }

  // Returns the items of the request in the order of deletion, without those in `completed`.
  absl::StatusOr<std::vector<StoredItem>> Requested(const v1::DeleteRequest& request,
                                                    const std::vector<StoredItem>& items,
                                                    const std::map<std::string, int64_t>& completed,
                                                    const grpc::ServerContext& context) const {
    const std::set<std::string> ids(request.ids().begin(), request.ids().end());
    for (const std::string& id : ids) {
      const auto found = std::ranges::find(items, id, &StoredItem::id);
      // Its deletion was interrupted; this call has completed it.
      if (found == items.end() && completed.contains(id)) continue;
      if (found == items.end()) return UnknownItem(id);
      RETURN_IF_ERROR(CheckMayManage(context, id, found->principal));
      if (!found->ended) return NotEnded(*found, options_.home);
    }
    std::vector<StoredItem> requested;
    std::ranges::copy_if(items, std::back_inserter(requested),
                         [&](const StoredItem& item) { return ids.contains(item.id); });
    return requested;
  }

  // Checks all items before it deletes the first.
  absl::StatusOr<v1::DeletionResponse> DeleteById(const v1::DeleteRequest& request,
                                                  const grpc::ServerContext& context) const {
    if (request.ids().empty()) {
      return absl::InvalidArgumentError("ids: got none, expected ids of jobs and runs");
    }
    ASSIGN_OR_RETURN(const FileLock lock, Lock(context));
    ASSIGN_OR_RETURN(const std::unique_ptr<HomeDeletion> deletion,
                     HomeDeletion::Open(options_.home, options_.state));
    std::map<std::string, int64_t> completed;
    if (!request.dry_run()) {
      ASSIGN_OR_RETURN(completed, deletion->FinishInterrupted());
    }
    ASSIGN_OR_RETURN(const std::vector<StoredItem> items, deletion->Items());
    ASSIGN_OR_RETURN(const std::vector<StoredItem> requested,
                     Requested(request, items, completed, context));
    DeletionCall check(deletion.get(), options_, context, /*dry_run=*/true);
    for (const StoredItem& item : requested) {
      RETURN_IF_ERROR(check.Apply(&HomeDeletion::Delete, item));
      RETURN_IF_ERROR(check.failure());
    }
    if (request.dry_run()) return check.response();
    DeletionCall call(deletion.get(), options_, context, /*dry_run=*/false);
    // From here on, an item that cannot be deleted does not fail the call: the response has to list
    // the others.
    for (const auto& [id, bytes] : completed) call.Report(id, bytes);
    for (const StoredItem& item : requested) {
      RETURN_IF_ERROR(call.Apply(&HomeDeletion::Delete, item));
    }
    return call.response();
  }

  absl::StatusOr<v1::DeletionResponse> Collect(const v1::CollectGarbageRequest& request,
                                               const grpc::ServerContext& context) const {
    if (request.keep() < 0 || request.older_than_seconds() < 0 ||
        (request.keep() == 0 && request.older_than_seconds() == 0)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "got keep ", request.keep(), " and older_than_seconds ", request.older_than_seconds(),
          ", expected one of them above 0 and none below"));
    }
    ASSIGN_OR_RETURN(const FileLock lock, Lock(context));
    ASSIGN_OR_RETURN(const std::unique_ptr<HomeDeletion> deletion,
                     HomeDeletion::Open(options_.home, options_.state));
    DeletionCall call(deletion.get(), options_, context, request.dry_run());
    if (!request.dry_run()) {
      ASSIGN_OR_RETURN(const auto completed, deletion->FinishInterrupted());
      for (const auto& [id, bytes] : completed) call.Report(id, bytes);
    }
    ASSIGN_OR_RETURN(const std::vector<StoredItem> items, deletion->Items());
    const RetentionPolicy policy = {
        .keep = request.keep(),
        .older_than = request.older_than_seconds(),
        // Results of evaluations stay when checkpoints are removed.
        .include_evaluated = request.include_evaluated() || request.checkpoints()};
    const auto action =
        request.checkpoints() ? &HomeDeletion::ReduceCheckpoints : &HomeDeletion::Delete;
    for (const size_t i : SelectByPolicy(items, policy, UnixTime())) {
      // Prepared data belongs to no principal, so operators alone collect it.
      if (!MayManage(context, items[i].principal)) continue;
      if (request.checkpoints() && !items[i].is_run) continue;
      RETURN_IF_ERROR(call.Apply(action, items[i]));
    }
    return call.response();
  }

  const StorageOptions options_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeStorageService(const StorageOptions& options) {
  return std::make_unique<StorageServiceImpl>(options);
}

}  // namespace braid
