#!/usr/bin/env python3
"""Compares the event files of braid, as TensorBoard reads them, with the metrics that it exports.

Trains a small model, which writes event files, exports others with `braid metrics --tensorboard`, and
compares both with `braid metrics --csv`. Needs build/bin/braid and the package tensorboard.
"""
import csv
import json
import pathlib
import random
import re
import sys
import tempfile

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from braid_command import Home

MODEL = ["model.d_model=16", "model.num_layers=2", "model.num_heads=2", "model.d_ff=32"]


def train(scratch):
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefgh", k=5)) for _ in range(200)]
    corpus = scratch / "corpus.jsonl"
    corpus.write_text("".join(
        json.dumps({"text": " ".join(rng.choices(words, k=80))}) + "\n" for _ in range(100)))
    home = Home(scratch)
    home.submit(corpus)
    settings = [argument for value in MODEL for argument in ("--set", value)]
    home.run("train", "--data", "job-000001", "--experts", "4", "--steps", "12", "--wait", *settings)
    return home


def csv_series(path):
    """Returns {name: {step: value}} of a CSV file, whose empty cells have no value."""
    series = {}
    with open(path) as file:
        for row in csv.DictReader(file):
            for name, value in row.items():
                # Event files have their own times and no numbers of single experts.
                of_expert = ".mean_weights." in name or ".load." in name
                if name not in ("step", "time") and not of_expert and value:
                    series.setdefault(name, {})[int(row["step"])] = float(value)
    return series


def column_of(tag):
    """Returns the column that has the values of a tag, such as times.ffn for time/ffn."""
    group, name = tag.split("/", 1)
    if group == "time":
        return f"times.{name}"
    layer = re.fullmatch(r"layer_(\d+)/(\w+)", name)
    return f"routing.layer_{int(layer[1])}.{layer[2]}" if layer else name


def event_series(directory):
    events = EventAccumulator(str(directory), size_guidance={"scalars": 0})
    events.Reload()
    return {column_of(tag): {event.step: event.value for event in events.Scalars(tag)}
            for tag in events.Tags()["scalars"]}


def difference(ours, theirs):
    """Returns the first series or value that differs; event files have 32-bit values."""
    for name in sorted(ours.keys() | theirs.keys()):
        if name not in ours or name not in theirs:
            return f"{name} is only in {'the CSV file' if name in ours else 'the event files'}"
        if ours[name].keys() != theirs[name].keys():
            return f"{name} has other steps"
        for step, value in ours[name].items():
            if numpy.float32(value) != numpy.float32(theirs[name][step]):
                return f"{name}, step {step}: {value} and {theirs[name][step]}"
    return None


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        home = train(scratch)
        home.run("metrics", "run-000001", "--csv", scratch / "run.csv")
        home.run("metrics", "run-000001", "--tensorboard", scratch / "board")
        ours = csv_series(scratch / "run.csv")
        directories = {path.parent for path in scratch.rglob("events.out.tfevents.*")}
        results = {directory: difference(ours, event_series(directory))
                   for directory in directories}
        for directory, other in results.items():
            print(f"{directory.relative_to(scratch)}: {len(ours)} series of "
                  f"{max(map(len, ours.values()))} steps, {'OTHER: ' + other if other else 'equal values'}")
        return 0 if results and not any(results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
