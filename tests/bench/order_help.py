#!/usr/bin/env python3
"""Compares what similarity order helps in several runs of the experiment "order".

    tests/bench/order_help.py OUTPUT_DIR...

OUTPUT_DIR is a directory that `braid reproduce --experiment order --full -o` wrote. Prints the help of
each setting (nats per token) with the interval of that experiment, and for each directory but the
first also the difference from the first, with a 95 % interval of t over seeds. The differences are
claims 11 and 12 of docs/reproduction/order.md.
"""
import json
import pathlib
import statistics
import sys

# 97.5 % quantiles of t by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}


def read(directory):
    """Returns the seeds of the runs and, by setting, the help: a part of a claim."""
    report = json.loads((pathlib.Path(directory) / "reproduction.json").read_text())
    parts = {part["name"]: part for claim in report["claims"] for part in claim["parts"]
             if part["name"].startswith("help, ") and "by_seed" in part}
    return sorted({run["seed"] for run in report["runs"]}), parts


def describe(mean, low, high):
    return f"{mean:+.4f} [{low:+.4f}, {high:+.4f}]"


def difference(values, first):
    gains = [a - b for a, b in zip(values, first, strict=True)]
    mean = statistics.fmean(gains)
    half = T[len(gains) - 1] * statistics.stdev(gains) / len(gains) ** 0.5
    return describe(mean, mean - half, mean + half)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    first_seeds, first = read(sys.argv[1])
    for directory in sys.argv[1:]:
        seeds, parts = read(directory)
        if seeds != first_seeds or len(seeds) < 2:
            raise SystemExit(f"{directory}: got seeds {seeds}, expected those of {sys.argv[1]}, "
                             f"{first_seeds}, and at least two")
        for name, part in sorted(parts.items()):
            line = f"{directory} {name}: {describe(part['effect'], *part['interval'])}"
            if directory != sys.argv[1] and name in first:
                line += ", minus the first " + difference(part["by_seed"], first[name]["by_seed"])
            print(line)


if __name__ == "__main__":
    main()
