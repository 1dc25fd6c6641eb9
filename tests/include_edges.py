#!/usr/bin/env python3
"""Fails when a source file includes what the layout does not allow.

The folders form layers; heavy headers (LibTorch, MPI, gRPC, FAISS) stay behind
walls of a few files. Run with --self-test to see that violations are found.
"""
import pathlib
import re
import sys

# folder -> folders of ours it may include besides itself
LAYERS = {
    "proto": set(),
    "formats": set(),
    "retrieval": {"proto", "formats"},
    "pipeline": {"proto", "formats", "retrieval"},
    "trainer": {"proto", "formats"},
    "cli": {"proto", "formats", "retrieval", "pipeline", "trainer"},
}

# header pattern -> files that may include it
WALLS = {
    r"<(torch|ATen|c10)/": r"^(trainer/(model|kernels)/|retrieval/contriever)",
    r"<mpi\.h>": r"^trainer/mpi_communicator\.cc$",
    r"<grpc(pp)?/": r"(_service|_client)\.(h|cc)$|/grpc_[a-z_]+\.(h|cc)$",
    r"<faiss/": r"^retrieval/faiss_[a-z_]+\.cc$",
    r"<prometheus/": r"^cli/prometheus_[a-z_]+\.(h|cc)$",
    r"<unicode/": r"^(retrieval/(bert_characters|wordpiece_[a-z]+)|trainer/evaluation/tasks/answer_text)\.cc$",
    r"<sentencepiece": r"^formats/sentencepiece_module\.cc$",
}

INCLUDE = re.compile(r"^\s*#\s*include\s+([<\"][^>\"]+[>\"])")


def violations(path, text):
    """Yields (line number, reason) for one file given by its path from the root."""
    folder = path.split("/")[0]
    for number, line in enumerate(text.splitlines(), 1):
        match = INCLUDE.match(line)
        if not match:
            continue
        header = match.group(1)
        target = header.strip('<>"').split("/")[0]
        if target in LAYERS and target != folder and target not in LAYERS[folder]:
            yield number, f"{folder}/ may not include {header}"
        for pattern, allowed in WALLS.items():
            if re.match(pattern, header) and not re.search(allowed, path):
                yield number, f"{header} belongs behind its wall ({allowed})"


def check_tree(root):
    found = 0
    for folder in LAYERS:
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
        ("formats/npy.h", '#include "pipeline/packing.h"'),
        ("trainer/adamw.cc", '#include "retrieval/embedder.h"'),
        ("trainer/training_loop.cc", "#include <torch/torch.h>"),
        ("trainer/training_loop.cc", "#include <mpi.h>"),
        ("pipeline/job_runner.cc", "#include <grpcpp/grpcpp.h>"),
        ("retrieval/neighbor_graph.cc", "#include <faiss/IndexFlat.h>"),
        ("retrieval/embedding_service.cc", "#include <ATen/ATen.h>"),
    ]
    good = [
        ("cli/main.cc", '#include "pipeline/packing.h"'),
        ("trainer/model/language_model.cc", "#include <torch/torch.h>"),
        ("pipeline/pipeline_service.cc", "#include <grpcpp/grpcpp.h>"),
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
