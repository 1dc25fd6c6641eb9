#!/usr/bin/env python3
"""Measures what fine-tuning achieves: the table of docs/finetuning.md.

    tests/bench/tuning_outcomes.py --home DIR --text TEXT... --tasks DIR [--seeds 3] [--rows sst2,mawps]

Trains one base model on the texts, fine-tunes it once per row and seed, evaluates without
demonstrations and prints one line per row. Everything that ran before in the same home is reused, so
an interrupted call continues. Needs build/bin/braid and the task files of docs/tasks.md.
"""
import argparse
import collections
import csv
import json
import os
import pathlib
import re
import statistics
import subprocess
import zlib

import numpy

BIN = pathlib.Path(os.environ.get("BRAID_BIN", pathlib.Path(__file__).resolve().parents[2] / "build/bin"))
LORA = ["--lora", "r=8,alpha=16,targets=q,v", "--learning-rate", "2e-3"]
FULL = ["--learning-rate", "5e-4"]
PASSES = 5


class Experiment:
    def __init__(self, arguments):
        self.home = pathlib.Path(arguments.home)
        self.home.mkdir(parents=True, exist_ok=True)
        self.text = arguments.text
        self.tasks = pathlib.Path(arguments.tasks)
        self.threads = ["--threads", str(arguments.threads)]
        settings = {"text": [os.path.abspath(path) for path in self.text],
                    "tasks": os.path.abspath(self.tasks), "lora": LORA, "full": FULL, "passes": PASSES}
        if (kept := self.kept("settings", lambda: settings)) != settings:
            raise SystemExit(f"{self.home}: its results are those of {kept}, not of {settings}; "
                             "choose another --home")

    def braid(self, *arguments):
        """Returns the JSON that a command prints."""
        done = subprocess.run([BIN / "braid", "--home", self.home, "--json", *map(str, arguments)],
                              capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"braid {' '.join(map(str, arguments))}: {done.stderr[-2000:]}")
        return json.loads(done.stdout)

    def kept(self, name, make):
        """Returns the JSON in a file of the home, made when it is missing."""
        path = self.home / "outcomes" / f"{name}.json"
        if not path.exists():
            result = make()
            path.parent.mkdir(exist_ok=True)
            path.with_suffix(".tmp").write_text(json.dumps(result))
            path.with_suffix(".tmp").rename(path)
        return json.loads(path.read_text())

    def job(self):
        """Returns the corpus job of the texts."""
        return self.kept("job", lambda: self.braid(
            "submit", *self.text, "--order", "random", "--vocab-size", 4096, "--sequence-length", 256,
            "--request-id", "tuning-outcomes-text", "--wait"))["id"]

    def dataset(self):
        """Returns the dataset directory of the job."""
        return self.braid("status", self.job())["result"]["dataset_dir"]

    def base(self, steps):
        """Returns the run of a base model; of one step without a learning rate it is random."""
        return self.kept(f"base-{steps}", lambda: self.braid(
            "train", "--data", self.job(), "--steps", steps, "--batch", 8,
            "--learning-rate", 3e-3 if steps > 1 else 1e-30, "--ranks", 1, *self.threads,
            "--set", "model={num_layers: 6, d_model: 128, num_heads: 4, d_ff: 512}",
            "--request-id", f"tuning-outcomes-base-{steps}", "--wait"))["id"]

    def tuned(self, name, seed, options, steps=2000):
        """Returns the run that tunes the base model with options."""
        request = f"tuning-outcomes-{name}-{seed}"
        return self.kept(f"{name}-{seed}", lambda: self.braid(
            "finetune", self.base(steps), *options, "--epochs", PASSES, "--validation", 0,
            "--seed", seed, "--ranks", 1, *self.threads, "--request-id", request, "--wait"))["id"]

    def figure(self, name, seed, run, task, *options):
        """Returns the first figure of a task for a run."""
        result = self.kept(f"{name}-{seed}-{task}", lambda: self.braid(
            "eval", "tasks", run, "--data", self.tasks, "--task", task, "--shots", 0,
            "--routing", "prompt", *self.threads, *options))
        return result["results"][0]["metrics"][0]["value"]

    def first_examples(self, number):
        """Returns a file with the first examples of SST-2 as prompts and completions."""
        path = self.home / "outcomes" / f"sst2-first-{number}.jsonl"
        with path.open("w") as out:
            for sentence, label in tabbed(self.tasks / "sst2/train.tsv")[:number]:
                prompt = f"{sentence.strip()}\nQuestion: Is this sentence positive or negative?\nAnswer:"
                completion = " " + ("negative", "positive")[int(label)]
                out.write(json.dumps({"prompt": prompt, "completion": completion}) + "\n")
        return path


def tabbed(path):
    with open(path, newline="") as file:
        rows = [line.rstrip("\n").split("\t") for line in file]
    return rows[1:] if rows[0] == ["sentence", "label"] else rows


def commas(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def bag_of_words(train, test, num_classes):
    """Returns the accuracy of a logistic regression on hashed words and pairs of words."""
    width = 1 << 15

    def features(texts):
        matrix = numpy.zeros((len(texts), width), dtype=numpy.float32)
        for row, text in enumerate(texts):
            words = re.findall(r"\w+", text.lower())
            for term in words + [a + " " + b for a, b in zip(words, words[1:])]:
                matrix[row, zlib.crc32(term.encode()) % width] = 1
        return matrix / numpy.maximum(1, numpy.linalg.norm(matrix, axis=1, keepdims=True))

    x, y = features([text for text, _ in train]), numpy.array([label for _, label in train])
    weights = numpy.zeros((width, num_classes), dtype=numpy.float32)
    target = numpy.eye(num_classes, dtype=numpy.float32)[y]
    for _ in range(300):
        scores = x @ weights
        scores = numpy.exp(scores - scores.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
        weights -= 10 * (x.T @ (scores - target) / len(y) + 1e-4 * weights)
    predicted = (features([text for text, _ in test]) @ weights).argmax(axis=1)
    return float((predicted == [label for _, label in test]).mean())


def parts(examples):
    """Returns three quarters of the examples and the rest."""
    return examples[:len(examples) * 3 // 4], examples[len(examples) * 3 // 4:]


def bags(tasks):
    """Returns the accuracy of the bag of words by task."""
    train, dev = ([(text, int(label)) for text, label in tabbed(tasks / "sst2" / name)]
                  for name in ("train.tsv", "dev.tsv"))
    news = [(" ".join(cells[1:]), int(cells[0]) - 1) for cells in commas(tasks / "ag_news/test.csv")]
    stars = ((cells[0], float(cells[2].rsplit(" ", 1)[1])) for cells in commas(tasks / "yelp/test.csv")[1:])
    reviews = [(text, int(number > 3)) for text, number in stars if number != 3]
    return {"sst2": bag_of_words(train, dev, 2), "agnews": bag_of_words(*parts(news), 4),
            "yelp": bag_of_words(*parts(reviews), 2)}


def rows(experiment):
    """Returns name, task, options of `finetune` and steps of the base model of each row."""
    def data(task):
        return ["--task", task, "--data", experiment.tasks]

    found = []
    for task in ("sst2", "agnews", "yelp", "mawps", "e2e"):
        found += [(f"{task}-lora", task, data(task) + LORA, 2000), (f"{task}-full", task, data(task) + FULL, 2000)]
    found += [("sst2-lora-random-base", "sst2", data("sst2") + LORA, 1),
              ("sst2-full-random-base", "sst2", data("sst2") + FULL, 1),
              ("sst2-lora-head", "sst2", data("sst2") + LORA + ["--label-head"], 2000),
              ("sst2-full-head", "sst2", data("sst2") + FULL + ["--label-head"], 2000)]
    for number in (100, 500):
        found.append((f"sst2-full-{number}", "sst2", ["--data", experiment.first_examples(number)] + FULL, 2000))
    return found


def forgetting(experiment, task):
    """Prints how much the loss on held-out text rises by tuning, in nats per token with intervals."""
    runs = {kind: experiment.tuned(f"{task}-{kind}", 0, experiment.options[f"{task}-{kind}"])
            for kind in ("lora", "full")}
    for first, second in ((experiment.base(2000), runs["lora"]), (runs["lora"], runs["full"])):
        result = experiment.kept(f"forgetting-{task}-{first}-{second}", lambda: experiment.braid(
            "eval", "perplexity", first, second, "--data", experiment.dataset(), *experiment.threads,
            "--max-windows", 64))
        print(f"forgetting {task}: {second} minus {first}: {json.dumps(result['comparisons'])[:600]}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--home", required=True, help="home of the runs, made when missing")
    parser.add_argument("--text", required=True, nargs="+", help="files of text for the base model")
    parser.add_argument("--tasks", required=True, help="directory with one folder of files per task")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each row (default: 3)")
    parser.add_argument("--threads", type=int, default=1, help="threads of each program (default: 1)")
    parser.add_argument("--rows", default="", help="rows to measure, separated by commas (default: all)")
    arguments = parser.parse_args()
    experiment = Experiment(arguments)
    experiment.base(2000)
    asked = [row for row in rows(experiment) if not arguments.rows or row[0] in arguments.rows.split(",")]
    experiment.options = {name: options for name, _, options, _ in rows(experiment)}
    for task, accuracy in bags(experiment.tasks).items():
        print(f"{'bag of words':24} {task:8} {accuracy:.3f}", flush=True)
    figures = collections.defaultdict(list)
    for seed in range(arguments.seeds):
        for name, task, options, steps in asked:
            if task == "e2e" and seed > 0:
                continue  # beam search takes minutes
            run = experiment.tuned(name, seed, options, steps)
            figures[name].append(experiment.figure(name, seed, run, task))
            print(f"{name:24} {task:8} {statistics.mean(figures[name]):.3f}   " +
                  " ".join(f"{figure:.3f}" for figure in figures[name]), flush=True)
    for task in ("sst2", "mawps"):
        if all(f"{task}-{kind}" in figures for kind in ("lora", "full")):
            forgetting(experiment, task)


if __name__ == "__main__":
    main()
