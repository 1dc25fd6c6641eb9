#include "base/path_roots.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <set>
#include <thread>

#include "tests/base/scratch_directory.h"
#include "tests/base/status_matchers.h"

namespace braid {
namespace path_roots_test {

namespace fs = std::filesystem;
using absl::StatusCode;

constexpr char kSecret[] = "what no client may read";

// Creates root/, which is allowed, with data/file and home/{tokens,store/set}; and outside/secret,
// which is not.
class PathRootsTest : public ::testing::Test {
 protected:
  PathRootsTest() {
    fs::create_directories(root() / "data/deep/deeper");
    fs::create_directories(root() / "home/store");
    fs::create_directories(outside());
    PutFile(root() / "data/file", "fine");
    PutFile(root() / "home/tokens", kSecret);
    PutFile(root() / "home/store/set", "fine");
    PutFile(outside() / "secret", kSecret);
    roots_ = PathRoots::Create({root(), root() / "home/store"}, root() / "home").value();
  }

  fs::path root() const { return fs::canonical(scratch_.path()) / "root"; }
  fs::path outside() const { return fs::canonical(scratch_.path()) / "outside"; }
  std::string In(const std::string& rest) const { return root().string() + "/" + rest; }
  void Link(const std::string& target, const std::string& name) {
    fs::create_symlink(target, root() / name);
  }

  // Attempts to escape by links, special files and spellings.
  std::vector<std::string> HostilePaths() {
    const std::string out = outside().string();
    Link(out + "/secret", "absolute_link");
    Link("../outside/secret", "relative_link");
    Link(out, "directory_link");
    Link("../outside", "relative_directory_link");
    Link("data/../../outside/secret", "winding_link");
    Link("/proc/self/root", "proc_root");
    Link("/proc/self/cwd", "proc_cwd");
    Link("/dev/stdin", "stdin_link");
    Link("/dev/fd/0", "fd_link");
    Link("/", "to_the_top");
    Link("loop_b", "loop_a");
    Link("loop_a", "loop_b");
    Link("itself", "itself");
    Link(out + "/made_later", "dangling");
    Link("../outside/made_later", "dangling_relative");
    Link("chain1", "chain0");
    Link("chain2", "chain1");
    Link("../outside/secret", "chain2");
    Link(In("data/file"), "absolute_inside");  // regarded as leading out
    Link("home/tokens", "to_hidden");
    mkfifo(In("fifo").c_str(), 0600);
    BindSocket(In("socket"));
    std::string deep = In("data");
    for (int i = 0; i < 40; ++i) deep += "/..";
    std::vector<std::string> paths = {
        // Elsewhere.
        "/",
        "//",
        "/.",
        "/..",
        "/etc/passwd",
        "/etc",
        "/etc/shadow",
        "//etc/passwd",
        out,
        out + "/secret",
        out + "/new",
        "/proc/self/root",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd",
        "/proc/self/environ",
        "/proc/self/fd/0",
        "/proc/1/root/etc/passwd",
        "/proc/self/mem",
        "/dev/stdin",
        "/dev/null",
        "/dev/zero",
        "/dev/mem",
        "/sys/kernel",
        "/proc/thread-self/root" + out + "/secret",
        // Relative, empty, of another kind.
        "",
        ".",
        "..",
        "etc/passwd",
        "data/file",
        "./data/file",
        "../outside/secret",
        "~/secret",
        "~root/.ssh/id_rsa",
        "file:///etc/passwd",
        "file://" + In("data/file"),
        "$HOME",
        "\\etc\\passwd",
        "C:\\secret",
        "-rf",
        "|cat /etc/passwd",
        "`id`",
        // Up and out.
        In(".."),
        In("../"),
        In("../outside/secret"),
        In("data/../../outside/secret"),
        In("data/deep/../../../outside/secret"),
        In("./../outside"),
        In("data/./../../outside"),
        In("data//..//..//outside/secret"),
        In("nothing/../../outside/secret"),
        In("nothing/../../../etc/passwd"),
        In("data/file/../../../outside/secret"),
        In("data/.. /../../outside/secret") + "/..",
        deep,
        deep + "/etc/passwd",
        root().string() + "/../root/../outside/secret",
        root().string() + "x/secret",
        root().string() + "-evil",
        root().parent_path().string(),
        root().string() + "/" + "..",
        "/tmp/.." + out + "/secret",
        // Links.
        In("absolute_link"),
        In("relative_link"),
        In("directory_link"),
        In("directory_link/secret"),
        In("directory_link/new"),
        In("relative_directory_link/secret"),
        In("winding_link"),
        In("proc_root"),
        In("proc_root/etc/passwd"),
        In("proc_cwd"),
        In("proc_cwd/secret"),
        In("stdin_link"),
        In("fd_link"),
        In("to_the_top"),
        In("to_the_top/etc/passwd"),
        In("to_the_top/proc/self/root/etc/passwd"),
        In("loop_a"),
        In("itself"),
        In("dangling"),
        In("dangling_relative"),
        In("chain0"),
        In("absolute_inside"),
        In("relative_directory_link/../outside/secret"),
        In("directory_link/.."),
        // The server's own.
        In("home/tokens"),
        In("home"),
        In("home/"),
        In("home/store/../tokens"),
        In("to_hidden"),
        In("home/new"),
        In("data/../home/tokens"),
        // Special files.
        In("fifo"),
        In("socket"),
        // Bytes.
        std::string("/etc/passwd\0", 12),
        In(std::string("data/file\0/../../outside", 24)),
        std::string("\0", 1),
        "/etc/passwd\n",
        "\n" + In("data/file"),
        "\xc0\xaf"
        "etc\xc0\xafpasswd",
        // Full-width dots and slashes, and a division slash.
        "\xef\xbc\x8f"
        "etc\xef\xbc\x8fpasswd",
        "\xe2\x88\x95"
        "etc",
        // Long.
        "/" + std::string(5000, 'a'),
        In(std::string(300, 'a')),
        In(std::string(PATH_MAX, '/') + ".."),
    };
    return paths;
  }

  static void BindSocket(const std::string& path) {
    const int descriptor = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, sizeof address.sun_path - 1);
    EXPECT_EQ(bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address), 0);
    close(descriptor);
  }

  ScratchDirectory scratch_;
  PathRoots roots_;
};

TEST_F(PathRootsTest, NoHostilePathEscapes) {
  const std::vector<std::string> paths = HostilePaths();
  EXPECT_GE(std::set<std::string>(paths.begin(), paths.end()).size(), 80U);
  for (const std::string& path : paths) {
    EXPECT_FALSE(roots_.Check(path).ok()) << path;
    EXPECT_FALSE(roots_.Read(path).ok()) << path;
  }
}

TEST_F(PathRootsTest, LookAlikesOfDotsAreOrdinaryNames) {
  // Overlong and full-width dots are ordinary characters: such a name lies in the root and does not
  // exist.
  for (const std::string name : {"\xc0\xae\xc0\xae/x", "\xef\xbc\x8e\xef\xbc\x8e/x", "%2e%2e/x",
                                 "\xe2\x80\xa5/x", ".../x", ".. /x"}) {
    EXPECT_OK(roots_.Check(In(name)));
    EXPECT_FAILS(roots_.Read(In(name)), StatusCode::kNotFound);
  }
}

TEST_F(PathRootsTest, ReadsFilesBeneathARoot) {
  Link("file", "data/link");
  Link("../file", "data/deep/link");
  for (const std::string rest : {"data/file", "data//file", "data/./file", "data/link",
                                 "data/deep/link", "home/store/set"}) {
    EXPECT_OK(roots_.Check(In(rest)));
    ASSERT_OK_AND_ASSIGN(const std::string text, roots_.Read(In(rest)));
    EXPECT_EQ(text, "fine") << rest;
  }
  EXPECT_OK(roots_.Check(root()));
  EXPECT_OK(roots_.Check(In("data/")));
}

TEST_F(PathRootsTest, MissingPathsBeneathARootAreAllowed) {
  for (const std::string rest : {"new", "data/new", "data/new/newer/newest", "home/store/new"}) {
    EXPECT_OK(roots_.Check(In(rest)));
    EXPECT_FAILS(roots_.Read(In(rest)), StatusCode::kNotFound);
  }
}

TEST_F(PathRootsTest, RootsMayBeGivenThroughALink) {
  fs::create_symlink(root(), scratch_ / "alias");
  ASSERT_OK_AND_ASSIGN(const PathRoots roots, PathRoots::Create({scratch_ / "alias"}, ""));
  EXPECT_OK(roots.Read(scratch_ / "alias/data/file"));
  EXPECT_OK(roots.Read(In("data/file")));
  EXPECT_FAILS(roots.Read(scratch_ / "alias/../outside/secret"), StatusCode::kInvalidArgument);
}

TEST_F(PathRootsTest, RootsMustBeDirectories) {
  EXPECT_FAILS(PathRoots::Create({In("nothing")}, ""), StatusCode::kNotFound, "nothing");
  EXPECT_FALSE(PathRoots::Create({In("data/file")}, "").ok());
  EXPECT_FALSE(PathRoots::Create({}, "").ok());
}

TEST_F(PathRootsTest, AHiddenRootStaysHidden) {
  for (const fs::path& hidden : {root() / "home", root() / "home/", root() / "data/../home"}) {
    ASSERT_OK_AND_ASSIGN(const PathRoots roots,
                         PathRoots::Create({root() / "home", root() / "home/store"}, hidden));
    for (const std::string name : {"home", "home/tokens", "home/new", "home/store/../tokens"}) {
      EXPECT_FALSE(roots.Check(In(name)).ok()) << name;
      EXPECT_FALSE(roots.Read(In(name)).ok()) << name;
    }
    EXPECT_OK(roots.Check(In("home/store/new")));
    EXPECT_EQ(roots.Read(In("home/store/set")).value(), "fine");
  }
}

// To the kernel, link/.. is the parent of the target of the link; to code that normalizes the path,
// the parent of the link.
TEST_F(PathRootsTest, PathsThroughAParentAreRefused) {
  Link("data/deep/deeper", "current");
  for (const std::string name :
       {"current/../../file", "current/..", "data/deep/../file", "data/..", "../root/data/file"}) {
    EXPECT_FAILS(roots_.Check(In(name)), StatusCode::kInvalidArgument, "without \"..\"");
    EXPECT_FAILS(roots_.Read(In(name)), StatusCode::kInvalidArgument, "without \"..\"");
  }
  EXPECT_OK(roots_.Check(In("current/..new")));
}

// The most expensive paths are those whose last names are missing: each name costs a lookup.
TEST_F(PathRootsTest, LongPathsAreRefusedCheaply) {
  const auto nested = [&](int names) {
    std::string path = root();
    for (int i = std::count(path.begin(), path.end(), '/'); i < names; ++i) path += "/x";
    return path;
  };
  EXPECT_OK(roots_.Check(nested(64)));
  EXPECT_FAILS(roots_.Check(nested(65)), StatusCode::kInvalidArgument, "at most 64 names");
  EXPECT_FAILS(roots_.Check(nested(2000)), StatusCode::kInvalidArgument, "at most 64 names");
  EXPECT_FAILS(roots_.Check(In(std::string(PATH_MAX, 'x'))), StatusCode::kInvalidArgument, "bytes");
  fs::create_directories(nested(32));
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 1024; ++i) EXPECT_OK(roots_.Check(nested(64)));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(10));
}

TEST_F(PathRootsTest, TheTopDirectoryAsRootAllowsNewNamesInIt) {
  const PathRoots top = PathRoots::Create({"/"}, "").value();
  EXPECT_OK(top.Check("/no-such-directory-of-braid"));
  EXPECT_OK(top.Check("/no-such-directory-of-braid/new"));
  EXPECT_FALSE(roots_.Check("/no-such-directory-of-braid").ok());
}

TEST_F(PathRootsTest, NeverReadsMoreThanTheLimit) {
  EXPECT_EQ(roots_.Read(In("data/file"), 4).value(), "fine");
  EXPECT_FAILS(roots_.Read(In("data/file"), 3), StatusCode::kInvalidArgument, "at most 3 bytes");
  PutFile(root() / "sparse", "");
  fs::resize_file(root() / "sparse", uint64_t{1} << 40);
  EXPECT_FAILS(roots_.Read(In("sparse")), StatusCode::kInvalidArgument, "at most 67108864 bytes");
}

TEST_F(PathRootsTest, UnresolvablePathsAreNotHidden) {
  Link("loop_b", "loop_a");
  Link("loop_a", "loop_b");
  EXPECT_FALSE(PathRoots::Create({root()}, In("loop_a/home")).ok());
}

TEST_F(PathRootsTest, WithoutRootsEveryPathIsAllowed) {
  EXPECT_OK(PathRoots().Check("anything"));
  EXPECT_EQ(PathRoots().Read(outside() / "secret").value(), kSecret);
}

// Swaps a link for a file, and a directory for a link that leads out, as fast as possible while a
// client opens paths through them: it must read a file beneath the root or none.
TEST_F(PathRootsTest, ConcurrentSwapsDoNotEscape) {
  fs::create_directory(root() / "swap");
  fs::create_directory(root() / "swap/inner");
  PutFile(root() / "swap/inner/secret", "fine");
  Link("../../outside", "swap/out");
  std::atomic<bool> stop = false;
  std::jthread swapper([&] {
    const std::string inner = In("swap/inner"), out = In("swap/out");
    while (!stop) renameat2(AT_FDCWD, inner.c_str(), AT_FDCWD, out.c_str(), RENAME_EXCHANGE);
  });
  int read = 0, refused = 0;
  for (int i = 0; i < 200'000 && (i < 20'000 || read == 0 || refused == 0); ++i) {
    const std::string path = In(i % 2 == 0 ? "swap/inner/secret" : "swap/./inner/secret");
    const absl::StatusOr<std::string> text = roots_.Read(path);
    if (text.ok()) {
      ASSERT_EQ(*text, "fine");
      ++read;
    } else {
      ++refused;
    }
  }
  stop = true;
  EXPECT_GT(read, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace path_roots_test
}  // namespace braid
