#!/usr/bin/env python3
"""Checks that no source file unpickles data, starts a shell, or lets FAISS read unverified files, and
that no benchmark aborts on its input.

FAISS trusts the content of index files, so it reads them in one place only, from a file whose
digest was verified. Run with --self-test to see that violations are found.
"""
import pathlib
import re
import sys

FOLDERS = ("base formats proto rpc retrieval pipeline conversion model runs trainer evaluation inference report "
           "control server client reproduce cli tests/bench").split()

# pattern -> (files that may contain it, the violation elsewhere)
RULES = {
    r"\btorch::(jit::)?(load|pickle_load)\b|\bpickle_load\b": (
        r"^$", "unpickles; weights are safetensors"),
    r"\b(PyTorchStreamReader|InputArchive|Unpickler)\b": (
        r"^$", "unpickles; weights are safetensors"),
    r"\bread_(index|VectorTransform|InvertedLists|ProductQuantizer)\w*\s*\((?!verified\.get)": (
        r"^$", "FAISS trusts the content of files; VectorIndex::Load verifies them first"),
    r"\bread_index\s*\(verified\.get": (
        r"^retrieval/faiss_vector_index\.cc$", "only VectorIndex::Load lets FAISS read a file"),
    r"(?<![\w:.>])(std::|::)?(system|popen)\s*\(": (
        r"^tests/bench/", "starts a shell"),
    r"\"([\w./-]*/)?(ba|da|z|k|c|tc|a|fi)?sh\"": (
        r"^cli/shell_completion\.cc$", "starts a shell"),
    r"\bBRAID_CHECK\b|\babort\(|\)\.value\(\)": (
        r"^(?!tests/bench/)", "aborts on what an option, a file or the machine causes; use OrExit"),
    r"\"([\w./-]*/)?(busybox|env)\"": (r"^$", "starts a shell, or a program named by a variable"),
}

COMMENT = re.compile(r"//.*$")


def violations(path, text):
    """Yields (line number, reason) for one file given by its path from the root."""
    for number, line in enumerate(text.splitlines(), 1):
        code = COMMENT.sub("", line)
        for pattern, (allowed, reason) in RULES.items():
            if re.search(pattern, code) and not re.search(allowed, path):
                yield number, reason


def check_tree(root):
    found = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            name = path.relative_to(root).as_posix()
            for number, reason in violations(name, path.read_text(encoding="utf-8")):
                print(f"{name}:{number}: {reason}")
                found += 1
    return found


def self_test():
    bad = [
        ("trainer/model/x.cc", "torch::load(model, path);"),
        ("retrieval/contriever.cc", "auto m = torch::jit::load(path);"),
        ("retrieval/contriever.cc", "c10::IValue v = torch::pickle_load(bytes);"),
        ("trainer/model/x.cc", "torch::serialize::InputArchive archive;"),
        ("retrieval/faiss_lists.cc", "faiss::read_index(path.c_str());"),
        ("retrieval/faiss_lists.cc", "faiss::read_index_binary(path.c_str());"),
        ("retrieval/faiss_vector_index.cc", "faiss::read_index(path.c_str());"),
        ("retrieval/faiss_lists.cc", "faiss::read_index(verified.get());"),
        ("control/launch/launcher.cc", "system(command.c_str());"),
        ("control/launch/launcher.cc", 'execl("/bin/sh", "sh", "-c", command);'),
        ("control/launch/launcher.cc", 'Run({"/usr/bin/sh", "-c", command});'),
        ("control/launch/launcher.cc", 'Run({"/bin/dash", "-c", command});'),
        ("control/launch/launcher.cc", 'Run({"/usr/local/bin/bash", "-c", command});'),
        ("control/launch/launcher.cc", 'execlp("sh", "-c", command);'),
        ("control/launch/launcher.cc", 'Run({"/usr/bin/env", "sh"});'),
        ("tests/bench/x.cc", "BRAID_CHECK(count == documents) << count;"),
        ("tests/bench/x.cc", "auto lines = MetricsLog::Open(path, 0).value();"),
    ]
    good = [
        ("retrieval/faiss_vector_index.cc", "faiss::read_index(verified.get());"),
        ("cli/x.cc", "// system() would start a shell"),
        ("cli/x.cc", 'Find("ssh"); Put("install.sh");'),
        ("cli/x.cc", "file_system(x); Manifest::Load(directory);"),
        ("base/x.cc", "BRAID_CHECK(i < size) << i;"),
        ("tests/bench/x.cc", "const int rc = std::system(command.c_str());"),
    ]
    missed = [case for case in bad if not list(violations(*case))]
    false_alarms = [case for case in good if list(violations(*case))]
    for case in missed + false_alarms:
        print("self-test failed:", case)
    return len(missed) + len(false_alarms)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    sys.exit(1 if check_tree(pathlib.Path(__file__).resolve().parent.parent) else 0)
