#!/usr/bin/env python3
"""Prints which share of the 16-grams of training instances occurs earlier in the same instance.

    copying_rate.py DATASET...

A dataset is the directory `HOME/store/pack-...` of a corpus job. A model can predict the last token
of such a 16-gram by copying.
"""

import argparse
import array
import json
import pathlib
import struct

TOKEN_TYPES = {4: "i", 8: "H"}  # codes of the .idx file: int32 and uint16


def sequences(prefix):
    """Yields the tokens of each sequence of PREFIX.bin and PREFIX.idx."""
    with open(f"{prefix}.idx", "rb") as index:
        index.read(17)  # magic and version
        code, num_sequences, _ = struct.unpack("<BQQ", index.read(17))
        lengths = array.array("i", index.read(4 * num_sequences))
    with open(f"{prefix}.bin", "rb") as tokens:
        for length in lengths:
            sequence = array.array(TOKEN_TYPES[code])
            sequence.fromfile(tokens, length)
            yield sequence


def copying_rate(directory, length):
    total = repeated = 0
    for tokens in sequences(directory / "instances"):
        grams = [bytes(tokens[i:i + length]) for i in range(len(tokens) - length + 1)]
        total += len(grams)
        repeated += len(grams) - len(set(grams))
    return repeated / total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("datasets", nargs="+", type=pathlib.Path, metavar="DATASET")
    parser.add_argument("--length", type=int, default=16, help="tokens of an n-gram (default: 16)")
    args = parser.parse_args()
    for directory in args.datasets:
        dataset = json.loads((directory / "dataset.json").read_text())
        print(f"{directory.name}  {dataset['order']:10}  {copying_rate(directory, args.length):.5f}")


if __name__ == "__main__":
    main()
