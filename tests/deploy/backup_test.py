#!/usr/bin/env python3
"""Follows the backup section of deploy/README.md literally, on a home that is in use.

usage: backup_test.py BUILD_DIR      (exit code 77: the sqlite3 program is missing)
"""
import json
import os
import pathlib
import pty
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path()
WORDS = "segment router expert merge token layer batch window corpus graph order model".split()


def commands():
    """The two command blocks of the section: backing up and restoring."""
    page = (ROOT / "deploy/README.md").read_text()
    section = page.split("## Backing up\n")[1].split("\n## ")[0]
    return ["\n".join(line[4:] for line in block.splitlines())
            for block in re.findall(r"(?:^    .*\n)+", section, re.M)]


class BackupTest(unittest.TestCase):
    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="braid-backup-"))
        self.addCleanup(shutil.rmtree, self.root)
        self.home = self.root / "data/braid"
        (self.root / "restored").mkdir()
        self.home.mkdir(parents=True)
        self.state = self.home

    def program(self):
        """The program with the directories of the original."""
        state = ["--state", self.state] if self.state != self.home else []
        return [BUILD / "bin/braid", "--home", self.home, *state]

    def braid(self, *arguments, home=None):
        program = self.program() if home is None else [BUILD / "bin/braid", "--home", home]
        done = subprocess.run([*program, *arguments], capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, f"{arguments}: {done.stderr}")
        return done.stdout

    def answer(self, answer, *arguments, home):
        """Runs a command whose standard input is a terminal at which `answer` is typed."""
        terminal, standard_input = pty.openpty()
        try:
            os.write(terminal, answer)
            done = subprocess.run([BUILD / "bin/braid", "--home", home, *arguments], text=True,
                                  stdin=standard_input, capture_output=True, timeout=400)
        finally:
            os.close(terminal)
            os.close(standard_input)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout + done.stderr

    def run_block(self, block):
        """Runs commands of the page with the directories of this test in place of its own."""
        for name in ("/data/braid", "/backup/braid", "/restored/braid"):
            block = block.replace(name, str(self.root) + name)
        block = block.replace("braid --home", f"{BUILD}/bin/braid --home")
        done = subprocess.run(["bash", "-e", "-c", block], capture_output=True, text=True, timeout=400)
        self.assertEqual(done.returncode, 0, f"{block}\n{done.stdout}{done.stderr}")
        return done.stdout

    def corpus(self, seed):
        rng = random.Random(seed)
        path = self.root / f"corpus-{seed}.jsonl"
        with path.open("w") as out:
            for i in range(200):
                text = " ".join(rng.choices(WORDS, k=60))
                out.write(json.dumps({"id": f"d{i}", "text": text}) + "\n")
        return path

    def examples(self):
        path = self.root / "examples.jsonl"
        with path.open("w") as out:
            for i in range(40):
                out.write(json.dumps({"instruction": f"name {WORDS[i % 9]}", "output": "model layer"}) + "\n")
        return path

    def submit(self, seed):
        return [*self.program(), "submit", self.corpus(seed), "--wait",
                "--vocab-size", "300", "--sequence-length", "64"]

    def test_a_restored_copy_has_the_jobs_and_runs(self):
        self.check_restored_copy(*commands())

    def test_a_restored_copy_with_the_databases_on_another_disk(self):
        self.state = self.root / "data/state"
        backup, restore = commands()
        # As the page says: with --state, the first two paths are in that directory.
        for name in ("jobs", "runs"):
            self.assertEqual(backup.count(f"/data/braid/{name}.sqlite"), 1)
            backup = backup.replace(f"/data/braid/{name}.sqlite", f"{self.state}/{name}.sqlite")
        self.check_restored_copy(backup, restore)
        self.assertFalse((self.root / "lost/jobs.sqlite").exists())

    def check_restored_copy(self, backup, restore):
        subprocess.run(self.submit(1), check=True, capture_output=True, timeout=400)
        self.braid("train", "--data", "job-000001", "--preset", "tiny", "--segment-length", "16",
                   "--steps", "4", "--threads", "1", "--wait")
        # Adapters, whose base weights are neither in the store nor in a run.
        self.braid("finetune", "run-000001", "--data", self.examples(), "--lora", "--experts", "4",
                   "--steps", "3", "--threads", "1", "--wait")
        # Jobs are written while the copy is made.
        writer = subprocess.Popen(self.submit(2), stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
        try:
            self.run_block(backup)
        finally:
            self.assertEqual(writer.wait(400), 0)
        for name in ("jobs", "runs"):
            copy = sqlite3.connect(self.root / f"backup/braid/{name}.sqlite")
            self.assertEqual(copy.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            copy.close()
        # What the copy shows comes from the copy.
        shutil.move(self.home, self.root / "lost")
        if self.state != self.home:
            shutil.move(self.state, self.root / "lost-state")
        output = self.run_block(restore)
        self.assertIn("job-000001", output)
        restored = self.root / "restored/braid"
        jobs = json.loads(self.braid("jobs", "--json", home=restored))["jobs"]
        done = [job for job in jobs if job["state"] == "JOB_SUCCEEDED"]
        self.assertIn("job-000001", [job["id"] for job in done])
        run = json.loads(self.braid("status", "run-000001", "--json", home=restored))
        self.assertEqual(run["state"], "RUN_SUCCEEDED")
        self.assertEqual(run["run_dir"], str(restored / "runs/run-000001"))
        self.braid("generate", "run-000002", "--prompt", "Hello", "--max-tokens", "4", home=restored)
        self.assertIn("instance", self.braid("explain", "job-000001", "--instance", "0", home=restored))
        # Deleting from the copy, with the question that a terminal gets.
        for answer, left in ((b"n\n", True), (b"y\n", False)):
            shown = self.answer(answer, "delete", "run-000001", home=restored)
            self.assertIn("Continue? [y/N]", shown)
            self.assertEqual((restored / "runs/run-000001").exists(), left, shown)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    if shutil.which("sqlite3") is None:
        sys.exit(77)
    unittest.main()
