// NeighborService (braid/v1/neighbors.proto): named shards of vectors.
//
// A shard is filled (Create, SetCentroids or Train, Add), sealed and searched. What it
// holds is HOME/<shard>/; once sealed, a manifest there has the digest of every file, and
// the shard outlives the process: after a restart it is verified and read at its first
// use. A shard that was not sealed is gone after a restart, and its files with it.
//
// Status codes: NOT_FOUND unknown shard; ALREADY_EXISTS Create of a name in use;
// INVALID_ARGUMENT bad name, index string, dimension, k, number of probes, or ids and
// vectors that are not what the proto asks for, with what was got and expected;
// FAILED_PRECONDITION a call at the wrong time of a shard's life, or at another position;
// RESOURCE_EXHAUSTED too many shards, a full disk; DATA_LOSS a damaged sealed shard. All
// calls but Train and Add without a position may be repeated. At most RetrievalThreads()
// searches work at a time; the others wait until their deadline.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_

#include <filesystem>
#include <memory>

namespace grpc {
class Service;
}

namespace braid {

// `home` is made by the first Create. One service per home.
std::unique_ptr<grpc::Service> MakeNeighborService(const std::filesystem::path& home);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
