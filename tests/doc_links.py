#!/usr/bin/env python3
"""Checks that what docs and comments refer to exists.

In Markdown: relative links and their #anchors, paths of files and folders of this repository
in backticks, names of tests, test programs and benchmarks. In sources: paths of docs. Prints
`file:line: reason` for each and exits with 1 if there is any. Run with --self-test to see
that violations are found.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("base formats proto rpc retrieval pipeline conversion model runs trainer evaluation inference report "
         "control server client reproduce cli").split()
FOLDERS = ROOMS + "cmake deploy docs tests".split()
SOURCES = {".h", ".cc", ".proto", ".py", ".sh", ".cmake", ".txt", ".yml", ".yaml", ".conf", ".textproto"}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
CODE = re.compile(r"`([^`\n]+)`")
FENCE = re.compile(r"^```.*?^```", re.M | re.S)
HEADING = re.compile(r"^#+ +(.*)$", re.M)
DOC_PATH = re.compile(r"\bdocs/[\w/.-]*\.(?:md|py)\b")
PROGRAM = re.compile(r"\bbuild/(bin|tests)/([\w-]+)")
TEST_NAME = re.compile(r"\b[a-z][a-z0-9_]*_test\b(?!\.txt)")
REPOSITORY_PATH = re.compile(r"^(?:" + "|".join(FOLDERS) + r")/[\w./*-]*$")


def slug(heading):
    """Returns the anchor that GitHub gives to a heading."""
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
    return re.sub(r"[^\w\- ]", "", text).replace(" ", "-")


def anchors(markdown):
    return {slug(heading) for heading in HEADING.findall(FENCE.sub("", markdown))}


class Tree:
    """What the repository offers: files, test names, programs."""

    def __init__(self, root):
        self.root = root
        cmake = "\n".join(p.read_text(encoding="utf-8") for folder in FOLDERS
                          for p in (root / folder).rglob("CMakeLists.txt"))
        self.tests = {p.stem for p in (root / "tests").rglob("*_test.cc")} | {
            p.stem for p in (root / "tests").rglob("*_test.py")} | set(re.findall(r"\b\w+_test\b", cmake))
        self.words = set(re.findall(r"[\w-]+", cmake))

    def exists(self, path):
        """Accepts files, folders, patterns, and file pairs named without an extension."""
        if "*" in path:
            return any(self.root.glob(path.rstrip("/")))
        return (self.root / path).exists() or any((self.root / f"{path}{s}").exists() for s in (".h", ".cc", ".py"))

    def has_program(self, kind, name):
        if kind == "bin" and name.startswith("braid-bench-"):
            return name.removeprefix("braid-bench-") in self.words
        if kind == "tests" and name.startswith("fuzz_"):
            return name == "fuzz_TARGET" or name.removeprefix("fuzz_") in self.words
        return name in self.words or kind == "tests" and name == "ROOM_tests"


def markdown_violations(tree, path, text):
    def line(match):
        return text.count("\n", 0, match.start()) + 1

    here = (tree.root / path).parent
    for match in LINK.finditer(FENCE.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)):
        target, _, anchor = match.group(1).partition("#")
        if re.match(r"[a-z]+:", target):
            continue
        file = (here / target).resolve() if target else tree.root / path
        if not file.exists():
            yield line(match), f"dead link {match.group(1)}"
        elif anchor and file.suffix == ".md" and anchor not in anchors(file.read_text(encoding="utf-8")):
            yield line(match), f"dead anchor {match.group(1)}"
    for match in CODE.finditer(text):
        beside = f"{path.rpartition('/')[0]}/{match.group(1)}"
        if REPOSITORY_PATH.match(match.group(1)) and not tree.exists(match.group(1)) and not tree.exists(beside):
            yield line(match), f"no such file {match.group(1)}"
    for match in TEST_NAME.finditer(text):
        if match.group() not in tree.tests:
            yield line(match), f"no such test {match.group()}"
    for match in PROGRAM.finditer(text):
        if not tree.has_program(*match.groups()):
            yield line(match), f"no such program {match.group()}"


def source_violations(tree, path, text):
    for match in DOC_PATH.finditer(text):
        if not (tree.root / match.group()).exists():
            yield text.count("\n", 0, match.start()) + 1, f"no such page {match.group()}"


def check_tree(root):
    tree, found = Tree(root), 0
    paths = [p for p in root.iterdir() if p.suffix in (".md", ".yml", ".txt")]
    for folder in FOLDERS:
        paths += [p for p in (root / folder).rglob("*") if p.is_file()]
    for path in sorted(paths):
        name = path.relative_to(root).as_posix()
        if path.suffix != ".md" and path.suffix not in SOURCES or name.startswith("tests/doc_links") or name == "tests/language.py":
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        check = markdown_violations if path.suffix == ".md" else source_violations
        for number, reason in check(tree, name, text):
            print(f"{name}:{number}: {reason}")
            found += 1
    return found


def self_test():
    tree = Tree(ROOT)
    bad = [
        (markdown_violations, "docs/x.md", "[a](nowhere.md)"),
        (markdown_violations, "docs/x.md", "[a](README.md#nowhere)"),
        (markdown_violations, "docs/x.md", "see `trainer/model/nowhere.h`"),
        (markdown_violations, "docs/x.md", "run `ctest -R nowhere_test`"),
        (markdown_violations, "docs/x.md", "    build/tests/nowhere_tests"),
        (markdown_violations, "docs/x.md", "    build/bin/braid-bench-nowhere"),
        (source_violations, "base/x.h", "// See docs/nowhere.md."),
    ]
    good = [
        (markdown_violations, "docs/x.md", "[a](README.md#processes) [b](https://example.org) `base/atomic_file`"),
        (markdown_violations, "docs/x.md", "`tests/include_edges.py`, `formats/*.h`, atomic_file_test, build/bin/braid"),
        (markdown_violations, "docs/x.md", "build/bin/braid-bench-ordering build/tests/base_tests"),
        (source_violations, "base/x.h", "// See docs/README.md."),
    ]
    failed = [case for case in bad if not list(case[0](tree, *case[1:]))]
    failed += [case for case in good if list(case[0](tree, *case[1:]))]
    if slug("Held-out documents and `near`-duplicates: how?") != "held-out-documents-and-near-duplicates-how":
        failed.append("slug")
    for case in failed:
        print("self-test failed:", case)
    return len(failed)


if __name__ == "__main__":
    sys.exit(1 if (self_test() if sys.argv[1:] == ["--self-test"] else check_tree(ROOT)) else 0)
