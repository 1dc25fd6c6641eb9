#!/usr/bin/env python3
"""Finds the best learning rate of each batch size for models of docs/reproduction/order.md.

    tests/bench/rate_sweep.py --home DIR --sequences 7680 [--batches 4,16,64,256] [--rates 3e-3,...] RUN...

Trains each RUN of the home again, with seed 100 and on that many sequences, for each batch size and
rate, one thread each. Prints one line of JSON per run: its held-out loss in nats per token after the
first segment, with equal weights of domains (Infinity: it failed). Then it prints, for each batch size, the rate with the
lowest mean over all runs. What an earlier call trained is found again. Needs build/bin/braid.
"""
import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import statistics
import subprocess

BIN = pathlib.Path(os.environ.get("BRAID_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))


def braid(home, *arguments):
    """Returns the JSON that a command prints."""
    done = subprocess.run([BIN / "braid", "--home", home, "--json", *map(str, arguments)],
                          capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"braid {' '.join(map(str, arguments))}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)


def heldout_loss(home, name, arguments):
    """Returns the loss of the run of that name, which is trained with the arguments if it is new."""
    run = braid(home, "train", *arguments, "--threads", 1, "--name", name, "--request-id", name)
    if braid(home, "status", run["id"])["state"] == "RUN_STOPPED":
        braid(home, "resume", run["id"])
    # A rate may be too high for the run to end with finite weights.
    subprocess.run([BIN / "braid", "--home", home, "status", run["id"], "--watch"], capture_output=True)
    if braid(home, "status", run["id"])["state"] == "RUN_FAILED":
        return math.inf
    scores = braid(home, "eval", "perplexity", run["id"], "--threads", 1)
    return statistics.fmean(d["loss_after_first_segment"]
                            for d in scores["evaluations"][0]["domains"])


def sweep(home, slots, runs):
    """Trains (setting, rate, others of its line, name, arguments); prints lines and best rates."""
    losses = []  # (setting, losses by rate)
    with concurrent.futures.ThreadPoolExecutor(slots) as pool:
        scored = pool.map(lambda run: heldout_loss(home, *run[3:]), runs)
        for (setting, rate, others, *_), loss in zip(runs, scored):
            if not losses or losses[-1][0] != setting:
                losses.append((setting, {}))
            losses[-1][1].setdefault(rate, []).append(loss)
            print(json.dumps({**others, **setting, "rate": rate, "loss": loss}), flush=True)
    for setting, by_rate in losses:
        means = {rate: statistics.fmean(values) for rate, values in by_rate.items()}
        print(json.dumps({**setting, "best_rate": min(means, key=means.get), "mean_losses": means}))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", required=True)
    parser.add_argument("--sequences", type=int, required=True)
    parser.add_argument("--batches", default="4,16,64,256")
    parser.add_argument("--rates", default="3e-3,6e-3,1.2e-2,2.4e-2")
    parser.add_argument("--slots", type=int, default=os.cpu_count())
    parser.add_argument("runs", nargs="+", metavar="RUN")
    asked = parser.parse_args()
    sweep(asked.home, asked.slots, [
        ({"batch": batch}, rate, {"run": run}, f"sweep-{asked.sequences}-{run}-{batch}-{rate}",
         ["--config", pathlib.Path(asked.home) / "runs" / run / "run.textproto", "--seed", 100,
          "--batch", batch, "--steps", asked.sequences // batch, "--learning-rate", rate])
        for batch in map(int, asked.batches.split(",")) for rate in asked.rates.split(",")
        for run in asked.runs])


if __name__ == "__main__":
    main()
