// The methods of all services that braidd can serve, for tests that walk over them.
#ifndef BRAID_TESTS_SERVER_ACCESS_SERVED_METHODS_H_
#define BRAID_TESTS_SERVER_ACCESS_SERVED_METHODS_H_

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <vector>

#include "braid/v1/analysis.pb.h"
#include "braid/v1/embedding.pb.h"
#include "braid/v1/generation.pb.h"
#include "braid/v1/neighbors.pb.h"
#include "braid/v1/pipeline.pb.h"
#include "braid/v1/storage.pb.h"
#include "braid/v1/training.pb.h"

namespace braid {

// Returns the methods from the descriptors of the files with services, so that new methods are
// included. Each file is found through one of its messages; the test fails if one has no service.
inline std::vector<const google::protobuf::MethodDescriptor*> ServedMethods() {
  std::vector<const google::protobuf::MethodDescriptor*> methods;
  for (const google::protobuf::FileDescriptor* const file :
       {v1::SubmitCorpusRequest::descriptor()->file(), v1::Run::descriptor()->file(),
        v1::RoutingAnalysis::descriptor()->file(), v1::GenerateRequest::descriptor()->file(),
        v1::EmbedRequest::descriptor()->file(), v1::SearchRequest::descriptor()->file(),
        v1::DeleteRequest::descriptor()->file()}) {
    EXPECT_GT(file->service_count(), 0) << file->name();
    for (int s = 0; s < file->service_count(); ++s) {
      for (int m = 0; m < file->service(s)->method_count(); ++m) {
        methods.push_back(file->service(s)->method(m));
      }
    }
  }
  return methods;
}

}  // namespace braid

#endif  // BRAID_TESTS_SERVER_ACCESS_SERVED_METHODS_H_
