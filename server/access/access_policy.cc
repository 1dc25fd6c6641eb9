#include "server/access/access_policy.h"

#include <algorithm>
#include <array>

namespace braid {
namespace {

using enum Role;

constexpr std::array kRoleNames = {std::string_view("viewer"), std::string_view("submitter"),
                                   std::string_view("operator")};

constexpr std::array kPolicies = {
    MethodPolicy{"/braid.v1.PipelineService/GetJob", kViewer},
    MethodPolicy{"/braid.v1.PipelineService/ListJobs", kViewer},
    MethodPolicy{.method = "/braid.v1.PipelineService/WatchJob",
                 .role = kViewer,
                 .watch = true,
                 .threadless = true},
    MethodPolicy{"/braid.v1.PipelineService/ExplainInstances", kViewer},
    MethodPolicy{"/braid.v1.PipelineService/ExplainDocument", kViewer},
    MethodPolicy{"/braid.v1.PipelineService/SubmitCorpus", kSubmitter},
    MethodPolicy{"/braid.v1.PipelineService/DescribeCorpus", kSubmitter},
    MethodPolicy{"/braid.v1.PipelineService/CancelJob", kSubmitter},
    MethodPolicy{"/braid.v1.PipelineService/ResumeJob", kSubmitter},

    MethodPolicy{"/braid.v1.TrainingService/GetRun", kViewer},
    MethodPolicy{"/braid.v1.TrainingService/ListRuns", kViewer},
    MethodPolicy{.method = "/braid.v1.TrainingService/WatchRun",
                 .role = kViewer,
                 .watch = true,
                 .threadless = true},
    MethodPolicy{"/braid.v1.TrainingService/LaunchRun", kSubmitter},
    MethodPolicy{"/braid.v1.TrainingService/StopRun", kSubmitter},
    MethodPolicy{"/braid.v1.TrainingService/ResumeRun", kSubmitter},

    MethodPolicy{"/braid.v1.AnalysisService/DescribeModel", kViewer},
    MethodPolicy{"/braid.v1.AnalysisService/Report", kViewer},
    MethodPolicy{"/braid.v1.AnalysisService/Evaluate", kSubmitter},
    MethodPolicy{"/braid.v1.AnalysisService/EvaluateTasks", kSubmitter},
    MethodPolicy{"/braid.v1.AnalysisService/AnalyzeRouting", kSubmitter},
    MethodPolicy{"/braid.v1.AnalysisService/AnalyzeExperts", kSubmitter},
    MethodPolicy{"/braid.v1.AnalysisService/AnalyzeLayers", kSubmitter},
    // Sends metrics to the client; the methods of operators write directories of the server.
    MethodPolicy{"/braid.v1.AnalysisService/ExportMetrics", kViewer},
    MethodPolicy{"/braid.v1.AnalysisService/Export", kOperator},
    MethodPolicy{"/braid.v1.AnalysisService/Import", kOperator},
    MethodPolicy{"/braid.v1.AnalysisService/Convert", kOperator},

    MethodPolicy{
        .method = "/braid.v1.GenerationService/Generate", .role = kSubmitter, .threadless = true},
    MethodPolicy{"/braid.v1.GenerationService/DescribeServing", kViewer},

    MethodPolicy{"/braid.v1.StorageService/Delete", kSubmitter},
    MethodPolicy{"/braid.v1.StorageService/CollectGarbage", kSubmitter},

    MethodPolicy{"/braid.v1.EmbeddingService/Embed", kSubmitter},

    MethodPolicy{"/braid.v1.NeighborService/Create", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Train", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Add", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Search", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Seal", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/SetCentroids", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Describe", kSubmitter},
    MethodPolicy{"/braid.v1.NeighborService/Drop", kSubmitter},

    // Load balancers and orchestrators have no token.
    MethodPolicy{.method = "/grpc.health.v1.Health/Check", .role = kViewer, .open = true},
    MethodPolicy{
        .method = "/grpc.health.v1.Health/Watch", .role = kViewer, .open = true, .watch = true},
    // Its stream lasts until the client ends it, so a drain must not wait for it.
    MethodPolicy{.method = "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                 .role = kViewer,
                 .watch = true},
    MethodPolicy{.method = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
                 .role = kViewer,
                 .watch = true},
};

}  // namespace

std::string_view RoleName(Role role) { return kRoleNames[static_cast<size_t>(role)]; }

std::optional<Role> ParseRole(std::string_view name) {
  const auto* const found = std::ranges::find(kRoleNames, name);
  if (found == kRoleNames.end()) return std::nullopt;
  return static_cast<Role>(found - kRoleNames.begin());
}

const MethodPolicy* FindPolicy(std::string_view method) {
  const auto* const found = std::ranges::find(kPolicies, method, &MethodPolicy::method);
  return found == kPolicies.end() ? nullptr : found;
}

std::span<const MethodPolicy> AllPolicies() { return kPolicies; }

}  // namespace braid
