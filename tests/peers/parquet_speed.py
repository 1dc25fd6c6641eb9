#!/usr/bin/env python3
"""Compares the CPU seconds in which braid and pyarrow read a text column on one thread.

    tests/peers/parquet_speed.py [--text FILE] [--megabytes 300]

Writes the text (JSON lines, compressed or not; without --text words at random) with pyarrow, once per
codec, and fails where braid is slower than read_table with to_pylist, or takes over twice the time of
read_table alone. Rounds alternate; the fastest of each counts. Needs build/bin/braid-bench-parquet and
the package pyarrow.
"""
import argparse
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import time

import pyarrow
import pyarrow.parquet

from braid_command import BIN
from tokenizers_ids import given_text

CODECS = ("none", "snappy", "zstd", "gzip", "lz4", "brotli")
ROUNDS = 5


def random_text():
    rng = random.Random(1)
    words = ["".join(rng.choices("etaoinshrdlu", k=rng.randrange(1, 12))) for _ in range(20_000)]
    while True:
        yield " ".join(rng.choices(words, k=rng.randrange(20, 800)))


def take(texts, num_bytes):
    """Returns texts of num_bytes in all, repeated from the first where there are fewer."""
    taken, size = [], 0
    texts = iter(texts)
    for text in texts:
        taken.append(text)
        size += len(text.encode())
        if size >= num_bytes:
            return taken
    return taken * (num_bytes // size + 1)


def seconds_of(action):
    start = time.process_time()
    action()
    return time.process_time() - start


def compare(path):
    def read():
        return pyarrow.parquet.read_table(path, columns=["text"], use_threads=False)

    ours, table, rows = [], [], []
    for _ in range(ROUNDS):
        done = subprocess.run([BIN / "braid-bench-parquet", path, "--repeats", "1"], capture_output=True,
                              text=True, check=True)
        report = json.loads(done.stdout)
        ours.append(report["cpu_seconds"])
        table.append(seconds_of(read))
        rows.append(seconds_of(lambda: read()["text"].to_pylist()))
    best = min(ours)
    print(f"{path.stem:>7}: {report['bytes'] / 1e6 / best:5.0f} MB/s, {min(rows) / best:.2f} times as fast as "
          f"read_table and to_pylist, {best / min(table):.2f} times the time of read_table")
    return min(rows) >= best and best <= 2 * min(table)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=pathlib.Path, help="JSON lines with a field text")
    parser.add_argument("--megabytes", type=float, default=300)
    arguments = parser.parse_args()
    pyarrow.set_cpu_count(1)
    texts = take(given_text(arguments.text) if arguments.text else random_text(), int(arguments.megabytes * 1e6))
    fast = True
    with tempfile.TemporaryDirectory() as directory:
        for codec in CODECS:
            path = pathlib.Path(directory) / f"{codec}.parquet"
            pyarrow.parquet.write_table(pyarrow.table({"text": texts}), path, compression=codec,
                                        row_group_size=20_000)
            fast &= compare(path)
            path.unlink()
    return 0 if fast else 1


if __name__ == "__main__":
    sys.exit(main())
