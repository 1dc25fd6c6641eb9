#!/usr/bin/env python3
"""Prints how much text the instances of packed datasets repeat.

    tests/bench/repeated_runs.py HOME/store/pack-...

For each dataset: the share of runs of 16 tokens that occur earlier in the same instance.
"""
import array
import json
import pathlib
import sys

RUN = 16
TYPES = {4: "i", 8: "H"}  # data types of docs/formats/indexed_dataset.md


def repeated_share(dataset):
    with open(dataset / "instances.idx", "rb") as index:
        tokens = array.array(TYPES[index.read(18)[17]])
    tokens.frombytes((dataset / "instances.bin").read_bytes())
    size = json.loads((dataset / "dataset.json").read_text())["sequence_length"] + 1
    runs = repeated = 0
    for begin in range(0, len(tokens), size):
        instance = tokens[begin : begin + size].tobytes()
        width = RUN * tokens.itemsize
        ends = range(width, len(instance) + 1, tokens.itemsize)
        runs += len(ends)
        repeated += len(ends) - len({instance[end - width : end] for end in ends})
    return repeated / runs if runs else 0.0


for directory in sys.argv[1:]:
    print(f"{repeated_share(pathlib.Path(directory)):8.5f}  {directory}")
