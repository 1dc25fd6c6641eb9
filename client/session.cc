#include "client/session.h"

#include <optional>
#include <utility>

#include "base/check.h"
#include "base/status_macros.h"
#include "proto/message_json.h"

namespace braid {
namespace {

std::string Json(const google::protobuf::Message& message, JsonLayout layout) {
  std::optional<std::string> json = MessageToJson(message, layout);
  BRAID_CHECK(json.has_value()) << message.GetTypeName();
  if (json->ends_with('\n')) json->pop_back();  // protobuf ends indented messages with one
  return *std::move(json);
}

}  // namespace

int ExitCodeOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return exit_code::kOk;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return exit_code::kUsage;
    case absl::StatusCode::kNotFound:
      return exit_code::kNotFound;
    case absl::StatusCode::kUnavailable:
    case absl::StatusCode::kDeadlineExceeded:
      return exit_code::kUnavailable;
    default:
      return exit_code::kFailed;
  }
}

absl::StatusOr<PipelineClient> Session::Pipeline(bool run_jobs) {
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kPipeline, run_jobs));
  return PipelineClient(connection->channel(), embedded());
}

absl::StatusOr<TrainingClient> Session::Training() {
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kTraining));
  return TrainingClient(connection->channel());
}

absl::StatusOr<AnalysisClient> Session::Analysis() {
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kAnalysis));
  return AnalysisClient(connection->channel());
}

absl::StatusOr<GenerationClient> Session::Generation() {
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kGeneration));
  return GenerationClient(connection->channel());
}

absl::StatusOr<StorageClient> Session::Storage() {
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kStorage));
  return StorageClient(connection->channel());
}

absl::StatusOr<HealthClient> Session::Health() {
  if (embedded()) {
    return absl::InvalidArgumentError(
        "health: got no --server, expected the HOST:PORT of a braidd");
  }
  // A connection to a server does not depend on the service.
  ASSIGN_OR_RETURN(Connection* const connection, Connect(ServiceName::kPipeline));
  return HealthClient(connection->channel());
}

absl::StatusOr<Connection*> Session::Connect(ServiceName service, bool run_jobs) {
  std::unique_ptr<Connection>& connection = embedded() ? embedded_[service] : remote_;
  if (connection == nullptr) {
    ASSIGN_OR_RETURN(connection, Connection::Open(options, {service}, run_jobs));
  }
  return connection.get();
}

std::string ToJson(const google::protobuf::Message& message) {
  return Json(message, JsonLayout::kOneLine);
}

std::string ToPrettyJson(const google::protobuf::Message& message) {
  return Json(message, JsonLayout::kIndented);
}

}  // namespace braid
