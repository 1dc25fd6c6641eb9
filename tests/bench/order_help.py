#!/usr/bin/env python3
"""Compares what similarity order helps in several runs of the experiment "order".

    tests/bench/order_help.py OUTPUT_DIR...

OUTPUT_DIR is a directory that `braid reproduce --experiment order -o` wrote. Prints, for each arm,
the loss in random order minus that in similarity order (nats per token), and for each directory but
the first also the difference from the first: means and 95 % intervals of t over seeds, which are
the claims 11 and 12 of docs/reproduction/order.md.
"""
import json
import pathlib
import statistics
import sys

# 97.5 % quantiles of t by degrees of freedom.
T = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776}


def interval(values):
    mean = statistics.fmean(values)
    half = T[len(values) - 1] * statistics.stdev(values) / len(values) ** 0.5
    return f"{mean:+.4f} [{mean - half:+.4f}, {mean + half:+.4f}]"


def helps(directory):
    """Returns the help of each arm, by seed."""
    runs = json.loads((pathlib.Path(directory) / "reproduction.json").read_text())["runs"]
    loss = {(run["arm"], run["order"].lower(), run["seed"]): run["heldout_loss"] for run in runs}
    found = {}
    for arm, order, seed in sorted(loss):
        if order == "random" and (arm, "similarity", seed) in loss:
            found.setdefault(arm, []).append(loss[arm, order, seed] - loss[arm, "similarity", seed])
    return found


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        raise SystemExit(__doc__)
    first = helps(sys.argv[1])
    for directory in sys.argv[1:]:
        for arm, values in helps(directory).items():
            line = f"{directory} {arm}: {interval(values)}"
            if directory != sys.argv[1] and len(first.get(arm, [])) == len(values):
                line += ", minus the first " + interval([a - b for a, b in zip(values, first[arm])])
            print(line)


if __name__ == "__main__":
    main()
