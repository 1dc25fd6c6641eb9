#include "base/client_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace client_file_test {

TEST(ClientFileTest, ReadsParts) {
  const ScratchDirectory scratch;
  PutFile(scratch / "f", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, ClientFile::Open(scratch / "f"));
  EXPECT_EQ(file->size(), 10);
  EXPECT_EQ(file->ReadAt(3, 4).value(), "3456");
  EXPECT_EQ(file->ReadAt(10, 0).value(), "");
}

TEST(ClientFileTest, AFileThatBecameShorterIsAnError) {
  const ScratchDirectory scratch;
  PutFile(scratch / "f", "0123456789");
  ASSERT_OK_AND_ASSIGN(const auto file, ClientFile::Open(scratch / "f"));
  std::filesystem::resize_file(scratch / "f", 5);
  EXPECT_EQ(file->ReadAt(0, 5).value(), "01234");
  EXPECT_FAILS(file->ReadAt(3, 4), absl::StatusCode::kDataLoss, "shorter");
}

TEST(ClientFileTest, RefusesWhatIsNotARegularFile) {
  const ScratchDirectory scratch;
  ASSERT_EQ(mkfifo((scratch / "fifo").c_str(), 0600), 0);
  EXPECT_FAILS(ClientFile::Open(scratch / "fifo"), absl::StatusCode::kInvalidArgument, "regular");
  EXPECT_FAILS(ClientFile::Open(scratch / "none"), absl::StatusCode::kNotFound, "none");
}

}  // namespace client_file_test
}  // namespace braid
