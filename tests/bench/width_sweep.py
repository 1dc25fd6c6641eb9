#!/usr/bin/env python3
"""Finds the best learning rate of each width with the initializations FAN_IN and WIDTH_SCALED.

    tests/bench/width_sweep.py --home DIR --data JOB|DIR [--widths 64,128,256] [--rates 4e-3,...]
        [--seeds 100,101] [--steps 80] [--batch 16]

Trains dense models of four layers with heads of width 32 on the dataset, one thread each. Prints one
line of JSON per run: its held-out loss as rate_sweep.py measures it. Then it prints, for each
initialization and width, the rate with the lowest mean over the seeds and the means of all rates.
A best rate at an end of the grid needs a larger grid. What an earlier call trained is found again.
Needs build/bin/braid.
"""
import argparse
import os

from rate_sweep import sweep

INITIALIZATIONS = "FAN_IN", "WIDTH_SCALED"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", required=True)
    parser.add_argument("--data", required=True, metavar="JOB|DIR")
    parser.add_argument("--widths", default="64,128,256", help="multiples of 32")
    parser.add_argument("--rates", default="4e-3,8e-3,1.6e-2,3.2e-2")
    parser.add_argument("--seeds", default="100")
    parser.add_argument("--steps", type=int, default=80)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--slots", type=int, default=os.cpu_count())
    asked = parser.parse_args()

    def run(initialization, width, rate, seed):
        name = f"width-{asked.steps}-{asked.batch}-{initialization}-{width}-{rate}-{seed}"
        model = (f"{{num_layers: 4, d_model: {width}, num_heads: {width // 32}, d_ff: {4 * width}, "
                 f"initialization: {initialization}}}")
        return ({"initialization": initialization, "width": width}, rate, {"seed": seed}, name,
                ["--data", asked.data, "--seed", seed, "--batch", asked.batch, "--steps",
                 asked.steps, "--learning-rate", rate, "--set", f"model={model}"])

    sweep(asked.home, asked.slots,
          [run(initialization, width, rate, seed) for initialization in INITIALIZATIONS
           for width in map(int, asked.widths.split(",")) for rate in asked.rates.split(",")
           for seed in map(int, asked.seeds.split(","))])


if __name__ == "__main__":
    main()
