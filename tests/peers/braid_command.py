"""Runs braid for the comparisons of this folder."""
import json
import os
import pathlib
import subprocess

import numpy

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BIN = pathlib.Path(os.environ.get("BRAID_BIN", ROOT / "build/bin"))


class Home:
    """A home directory of braid."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory) / "home"

    def run(self, *arguments):
        """Returns the JSON that a command prints."""
        done = subprocess.run([BIN / "braid", "--home", self.directory, "--json", *arguments],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"braid {arguments[0]} failed: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def submit(self, *arguments):
        return self.run("submit", *arguments, "--vocab-size", "300", "--sequence-length", "128",
                        "--set", "pack.heldout_fraction=0", "--wait")

    def stage(self, name):
        """Returns the directory of the only output of a stage."""
        (directory,) = (self.directory / "store").glob(name + "-*")
        return directory

    def documents(self):
        """Returns the ids and the texts that were ingested, in order."""
        ingest = self.stage("ingest")
        return [cut(ingest / f"{name}s.bin", ingest / f"{name}_offsets.npy") for name in ("id", "text")]


def cut(path, offsets):
    data, ends = path.read_bytes(), numpy.load(offsets)
    return [data[a:b].decode() for a, b in zip(ends[:-1], ends[1:])]
