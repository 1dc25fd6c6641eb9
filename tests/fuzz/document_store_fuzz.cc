// The parts of the input are the six files of the document store.
#include "base/check.h"
#include "formats/npy_header.h"
#include "pipeline/store/document_store.h"
#include "tests/fuzz/fuzz_target.h"

namespace braid {
namespace {

constexpr const char* kStoreNames[] = {"texts.bin",      "text_offsets.npy", "ids.bin",
                                       "id_offsets.npy", "domains.npy",      "domains.json"};

template <class T>
std::string Array(const char* descr, std::vector<T> values) {
  const std::vector<int64_t> shape = {std::ssize(values)};
  return FormatNpyHeader(descr, shape) +
         std::string(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T));
}

}  // namespace

std::vector<std::string> FUZZ_SEEDS(document_store)() {
  return {
      JoinParts({"onetwo", Array<int64_t>("<i8", {0, 3, 6}), "ab", Array<int64_t>("<i8", {0, 1, 2}),
                 Array<int32_t>("<i4", {0, 1}), "[\"code\", \"law\"]\n"})};
}

}  // namespace braid

int FUZZ_INPUT(document_store)(const uint8_t* data, size_t size) {
  using namespace braid;  // NOLINT
  static const FuzzDirectory directory;
  const std::vector<std::string> parts = SplitParts(AsText(data, size), std::size(kStoreNames));
  for (size_t i = 0; i < std::size(kStoreNames); ++i) directory.Put(kStoreNames[i], parts[i]);
  const auto store = DocumentStore::Open(directory.path());
  if (!store.ok()) return 0;
  size_t bytes = 0;
  for (int64_t i = 0; i < std::min<int64_t>(store->size(), 1000); ++i) {
    for (const char c : store->text(i)) bytes += static_cast<unsigned char>(c);
    for (const char c : store->id(i)) bytes += static_cast<unsigned char>(c);
    BRAID_CHECK(store->domain(i) >= 0 && store->domain(i) < std::ssize(store->domain_names()));
    BRAID_CHECK(store->ChunkEnd(i, 10, 10) > i) << i;
  }
  [[maybe_unused]] volatile size_t used = bytes;
  return 0;
}
