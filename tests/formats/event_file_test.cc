#include "formats/event_file.h"

#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "tests/base/scratch_directory.h"

namespace braid {
namespace event_file_test {

TEST(EventFileTest, MasksChecksums) {
  EXPECT_EQ(Crc32c("123456789"), 0xE3069283u);
  EXPECT_EQ(MaskedCrc32c("123456789"), 0xC78AB0E5u);
  EXPECT_EQ(MaskedCrc32c(""), 0xA282EAD8u);
}

// The expected bytes were computed bit by bit with independent code.
TEST(EventFileTest, RecordsAreTheBytesOfTheFormat) {
  EXPECT_EQ(EventRecord(""), FromHex("000000000000000029039807d8ea82a2"));
  EXPECT_EQ(EventRecord("abc"), FromHex("0300000000000000b099490e6162636e57f121"));
  // The version event at 1700000000, and loss = 2.5 of step 7 one second later.
  EXPECT_EQ(EventRecord(FromHex("0900000040fc54d9411a0d627261696e2e4576656e743a32")),
            FromHex("1800000000000000a37f4b220900000040fc54d9411a0d627261696e2e4576656e743a32"
                    "eced8f9d"));
  EXPECT_EQ(EventRecord(FromHex("0900004040fc54d94110072a0d0a0b0a046c6f73731500002040")),
            FromHex("1a00000000000000129bd82d0900004040fc54d94110072a0d0a0b0a046c6f7373150000"
                    "204037efed96"));
}

TEST(EventFileTest, NamesSortByTimeAndContainSafeCharactersOnly) {
  EXPECT_EQ(EventFileName(1700000000, "nd-1.example", 42),
            "events.out.tfevents.1700000000.nd-1.example.42.0");
  EXPECT_EQ(EventFileName(5, "a/b c", 1), "events.out.tfevents.0000000005.a_b_c.1.0");
  EXPECT_EQ(EventFileName(5, "", 1), "events.out.tfevents.0000000005.host.1.0");
  EXPECT_LT(EventFileName(999, "b", 9), EventFileName(1000, "a", 10));
}

TEST(EventFileTest, ANewFileSortsAfterAllExistingOnes) {
  const ScratchDirectory scratch;
  EXPECT_EQ(SecondsAfterOthers(scratch / "none", 100), 100);
  PutFile(scratch / "events.out.tfevents.0000000050.a.1.0", "");
  EXPECT_EQ(SecondsAfterOthers(scratch.path(), 100), 100);
  PutFile(scratch / "events.out.tfevents.0000000100.a.1.0", "");
  EXPECT_EQ(SecondsAfterOthers(scratch.path(), 100), 101);
  EXPECT_EQ(SecondsAfterOthers(scratch.path(), 7), 101) << "a clock that was set back";
}

TEST(EventFileTest, IgnoresOtherFiles) {
  const ScratchDirectory scratch;
  for (const char* name :
       {"events.out.tfevents.99999999999999999999.a.1.0", "events.out.tfevents.-000000900.a",
        "events.out.tfevents.", "notes.txt", "events.out.tfevents.00000x0900.a"}) {
    PutFile(scratch / name, "");
  }
  EXPECT_EQ(SecondsAfterOthers(scratch.path(), 100), 100);
}

}  // namespace event_file_test
}  // namespace braid
