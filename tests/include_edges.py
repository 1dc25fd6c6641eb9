#!/usr/bin/env python3
"""Checks that every source file includes only what the README of its room allows.

A room is a folder of the root, a sub-room a folder inside one. Each has a README
with a line "May include: `base`, `model/config`." (or "nothing of ours"). The allowed
edges must not form a cycle, neither between rooms nor between sub-rooms, and no
line may allow an edge that nothing uses. Heavy headers (LibTorch, MPI, gRPC, FAISS,
CLI11) stay in the few files that WALLS names. Run with --self-test to see that
violations are found.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROOMS = ("base formats proto rpc retrieval pipeline conversion model runs trainer evaluation inference report "
         "control server client reproduce cli").split()

# header pattern -> files that may include it
WALLS = {
    r"<(torch|ATen|c10)/": r"^(model/|retrieval/contriever_model\.cc$)",
    r"<mpi\.h>": r"^trainer/parallel/mpi_communicator\.cc$",
    r"<grpc(pp)?/": r"(_service|_client)\.(h|cc)$|/grpc_[a-z_]+\.(h|cc)$",
    r"[<\"]CLI/": r"^cli/",
    r"<faiss/": r"^retrieval/faiss_[a-z_]+\.cc$",
    r"<prometheus/": r"^server/prometheus_[a-z_]+\.(h|cc)$",
    r"<unicode/": r"^(retrieval/(bert_characters|wordpiece_[a-z]+)|evaluation/tasks/answer_text|formats/(piece_scanner|character_scan|text_normalizer))\.(cc|h)$",
    r"<sentencepiece": r"^formats/sentencepiece_module\.cc$",
}

INCLUDE = re.compile(r"^\s*#\s*include\s+([<\"][^>\"]+[>\"])", re.M)
MAY_INCLUDE = re.compile(r"^May include: (.*)\.$", re.M)


def folder_of(header):
    """Returns the room of a header of ours such as "runs/checkpoint.h"; None for others."""
    folder, _, _ = header.rpartition("/")
    if folder.split("/")[0] == "braid":  # generated from .proto files
        return "proto"
    return folder if folder.split("/")[0] in ROOMS else None


def allowed_folders(readme):
    """Returns the folders in the line "May include:" of a README's text; None without one."""
    line = MAY_INCLUDE.search(readme)
    return None if line is None else set(re.findall(r"`([a-z_/]+)`", line.group(1)))


def violations(path, text, allowed):
    """Yields reasons why the file at `path` may not include what it does; collects used edges."""
    folder = path.rpartition("/")[0]
    for header in INCLUDE.findall(text):
        target = folder_of(header.strip('<>"'))
        if target is not None and target != folder and target not in allowed.get(folder, set()):
            yield f"{folder}/README.md does not allow {header}"
        for pattern, files in WALLS.items():
            if re.match(pattern, header) and not re.search(files, path):
                yield f"{header} may only be included by {files}"


def cycle(edges):
    """Returns the nodes of a cycle in {node: set of nodes}, or None."""
    done, stack = set(), []

    def visit(node):
        if node in stack:
            return stack[stack.index(node):] + [node]
        if node in done:
            return None
        stack.append(node)
        for target in sorted(edges.get(node, ())):
            found = visit(target)
            if found:
                return found
        stack.pop()
        done.add(node)
        return None

    return next(filter(None, map(visit, sorted(edges))), None)


def room_edges(edges):
    rooms = {}
    for folder, targets in edges.items():
        room = folder.split("/")[0]
        rooms.setdefault(room, set()).update(t.split("/")[0] for t in targets)
        rooms[room].discard(room)
    return rooms


def order_violations(edges):
    """Yields edges to rooms that come later in ROOMS."""
    for room, targets in room_edges(edges).items():
        for target in targets:
            if ROOMS.index(target) > ROOMS.index(room):
                yield f"{room}/ comes before {target}/ and may not include it"


def check_tree():
    errors, allowed, used = [], {}, {}
    files = [p for room in ROOMS for p in sorted((ROOT / room).rglob("*")) if p.suffix in (".h", ".cc")]
    for folder in sorted({p.parent for p in files}):
        name = folder.relative_to(ROOT).as_posix()
        readme = folder / "README.md"
        allowed[name] = allowed_folders(readme.read_text(encoding="utf-8")) if readme.exists() else None
        if allowed[name] is None:
            errors.append(f"{name}/README.md: missing, or without a line 'May include: ...'")
            allowed[name] = set()
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        text = path.read_text(encoding="utf-8")
        errors += [f"{name}: {reason}" for reason in violations(name, text, allowed)]
        targets = {folder_of(h.strip('<>"')) for h in INCLUDE.findall(text)}
        used.setdefault(name.rpartition("/")[0], set()).update(targets)
    for folder, targets in allowed.items():
        for target in sorted(targets - used.get(folder, set())):
            errors.append(f"{folder}/README.md: allows `{target}`, which nothing there includes")
    errors += list(order_violations(allowed))
    for edges in (allowed, room_edges(allowed)):
        found = cycle(edges)
        if found:
            errors.append("cycle: " + " -> ".join(found))
    print("\n".join(errors))
    return len(errors)


def self_test():
    allowed = {"formats": {"base"}, "trainer": {"runs", "base"}, "pipeline/jobs": {"rpc"}, "cli": {"runs"},
               "model/routing": {"model/kernels"}, "retrieval": {"proto"}}
    bad = [
        ("formats/npy.h", '#include "pipeline/ordering/packing.h"'),
        ("trainer/adamw.cc", '#include "retrieval/embedder.h"'),
        ("trainer/training_loop.cc", "#include <torch/torch.h>"),
        ("trainer/training_loop.cc", "#include <mpi.h>"),
        ("pipeline/jobs/job_runner.cc", "#include <grpcpp/grpcpp.h>"),
        ("retrieval/neighbor_graph.cc", "#include <faiss/IndexFlat.h>"),
        ("retrieval/neighbor_graph.cc", "#include <CLI/CLI.hpp>"),
        ("formats/npy.cc", '#include "braid/v1/model.pb.h"'),
    ]
    good = [
        ("cli/braid.cc", '#include "runs/run_spec.h"'),
        ("model/routing/router.cc", '#include "model/kernels/swiglu.h"\n#include <torch/torch.h>'),
        ("retrieval/neighbor_graph.cc", '#include "braid/v1/model.pb.h"'),
    ]
    failed = [case for case in bad if not list(violations(*case, allowed))]
    failed += [case for case in good if list(violations(*case, allowed))]
    if allowed_folders("# a\nMay include: `base`, `model/config`.\n") != {"base", "model/config"}:
        failed.append("allowed_folders")
    if cycle({"a": {"b"}, "b": {"c"}, "c": {"a"}}) is None or cycle({"a": {"b"}, "b": set()}):
        failed.append("cycle")
    if not list(order_violations({"base": {"cli"}})) or list(order_violations({"cli": {"base"}})):
        failed.append("order_violations")
    for case in failed:
        print("self-test failed:", case)
    return len(failed)


if __name__ == "__main__":
    sys.exit(1 if (self_test() if sys.argv[1:] == ["--self-test"] else check_tree()) else 0)
