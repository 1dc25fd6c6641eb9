// NeighborService (braid/v1/neighbors.proto): named shards of vectors.
//
// A shard is filled (Create, SetCentroids or Train, Add), sealed and searched. Its files are in
// HOME/<shard>/. Once sealed, a manifest there contains the checksum of every file, and the shard
// survives the process: after a restart it is verified and read at its first use. A shard that was
// not sealed is lost at a restart, and its files are removed.
//
// Status codes: NOT_FOUND for an unknown shard; ALREADY_EXISTS for a Create of a name in use;
// INVALID_ARGUMENT for an invalid name, index string, dimension, k, number of probes, or ids and
// vectors that violate the proto, with got and expected values; FAILED_PRECONDITION for a call at
// the wrong time of a shard's life, or at another position; RESOURCE_EXHAUSTED for too many shards
// or a full disk; DATA_LOSS for a damaged sealed shard. All calls except Train and Add without a
// position may be repeated. At most RetrievalThreads() searches run at a time; others wait until
// their deadline.
#ifndef BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
#define BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_

#include <filesystem>
#include <memory>

namespace grpc {
class Service;
}

namespace braid {

// Creates the service. The first Create makes the directory `home`. One service per home.
std::unique_ptr<grpc::Service> MakeNeighborService(const std::filesystem::path& home);

}  // namespace braid

#endif  // BRAID_RETRIEVAL_NEIGHBOR_SERVICE_H_
