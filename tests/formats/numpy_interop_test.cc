// Interoperability with NumPy in both directions; see numpy_interop.py.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "formats/indexed_dataset.h"
#include "formats/npy.h"
#include "formats/safetensors.h"
#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace numpy_interop_test {

struct NamedShape {
  std::string name;
  std::vector<int64_t> shape;
};
const std::vector<NamedShape> kShapes = {
    {"line", {5}}, {"matrix", {17, 3}}, {"cube", {2, 3, 4}}, {"empty", {0, 4}}, {"long", {123456}}};

template <class T>
std::vector<T> Values(std::span<const int64_t> shape) {
  std::vector<T> values(
      std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>()));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<T>((37 * i + 11) % 101);
  return values;
}

int RunPython(const std::string& command, const std::filesystem::path& directory = "") {
  const std::string line = std::string("'") + BRAID_PYTHON + "' '" +
                           BRAID_TESTS_DIR "/formats/numpy_interop.py" + "' " + command + " '" +
                           directory.string() + "'";
  return std::system(line.c_str());
}

template <class T>
std::string NameOf(const NamedShape& shape) {
  return shape.name + "." + std::string(NpyDescr<T>().substr(1)) + ".npy";
}

template <class T>
void WriteArrays(const ScratchDirectory& scratch) {
  for (const NamedShape& shape : kShapes) {
    const std::vector<T> values = Values<T>(shape.shape);
    const std::vector<int64_t> row_shape(shape.shape.begin() + 1, shape.shape.end());
    ASSERT_OK_AND_ASSIGN(auto writer, NpyWriter<T>::Create(scratch / NameOf<T>(shape), row_shape));
    ASSERT_OK(writer.AppendRows(values));
    ASSERT_OK(writer.Commit());
  }
}

// Checks that NumPy reads the values, and that WriteNpy gives the same bytes.
template <class T>
void CheckArrays(const ScratchDirectory& scratch) {
  for (const NamedShape& shape : kShapes) {
    SCOPED_TRACE(NameOf<T>(shape));
    const std::vector<T> values = Values<T>(shape.shape);
    ASSERT_OK_AND_ASSIGN(auto array, NpyArray<T>::Open(scratch / NameOf<T>(shape)));
    EXPECT_TRUE(std::ranges::equal(array.shape(), shape.shape));
    EXPECT_TRUE(std::ranges::equal(array.values(), values));
    ASSERT_OK(WriteNpy<T>(scratch / "ours.npy", shape.shape, values));
    EXPECT_TRUE(GetFile(scratch / "ours.npy") == GetFile(scratch / NameOf<T>(shape)));
  }
}

void WriteTokens(const std::filesystem::path& prefix) {
  ASSERT_OK_AND_ASSIGN(auto writer, IndexedDatasetWriter::Create(prefix, 32000));
  for (int64_t i = 0; i < 10; ++i) {
    const std::vector<int64_t> shape = {3 * i + 1};
    ASSERT_OK(writer->AddSequence(Values<int32_t>(shape)));
    writer->EndDocument();
  }
  ASSERT_OK(writer->Commit());
}

void WriteTensors(const std::filesystem::path& path) {
  const std::vector<int64_t> weights = {6, 5}, counts = {3};
  ASSERT_OK_AND_ASSIGN(
      auto writer, SafetensorsWriter::Create(
                       path, {{"weights", DType::kF32, weights}, {"counts", DType::kI64, counts}},
                       {{"made by", "test"}}));
  ASSERT_OK(writer->Write("weights", AsBytes<float>(Values<float>(weights))));
  ASSERT_OK(writer->Write("counts", AsBytes<int64_t>(Values<int64_t>(counts))));
  ASSERT_OK(writer->Commit());
}

template <class... Types, class Action>
void ForTypes(Action action) {
  (action.template operator()<Types>(), ...);
}
#define FOR_EVERY_TYPE(function)                                          \
  ForTypes<float, double, int32_t, int64_t, uint8_t, uint16_t, uint32_t>( \
      [&]<class T>() { function<T>(scratch); })

class NumpyInteropTest : public testing::Test {
 protected:
  void SetUp() override {
    if (RunPython("available 2>/dev/null") != 0) GTEST_SKIP() << "numpy cannot be imported";
  }
};

TEST_F(NumpyInteropTest, ReadsFilesWrittenByNumpy) {
  ScratchDirectory scratch;
  ASSERT_EQ(RunPython("write", scratch.path()), 0);
  FOR_EVERY_TYPE(CheckArrays);
}

TEST_F(NumpyInteropTest, NumpyReadsWrittenFiles) {
  ScratchDirectory scratch;
  FOR_EVERY_TYPE(WriteArrays);
  WriteTokens(scratch / "tokens");
  WriteTensors(scratch / "model.safetensors");
  EXPECT_EQ(RunPython("check", scratch.path()), 0);
}

}  // namespace numpy_interop_test
}  // namespace braid
