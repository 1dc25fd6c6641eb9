#!/usr/bin/env python3
"""Compares the accuracy that lm-evaluation-harness measures with that of `braid eval tasks`.

Trains a dense model and one with experts on made text, exports both, and evaluates three tasks of made
questions with the prompts of braid. Needs build/bin/braid and the packages lm-eval, torch,
transformers and tokenizers.
"""
import json
import os
import pathlib
import random
import sys
import tempfile

os.environ.setdefault("HF_DATASETS_OFFLINE", "1")
import lm_eval
from tokenizers import Tokenizer, models, trainers
from tokenizers.pre_tokenizers import ByteLevel

from braid_command import Home

EXAMPLES = 60
END = "<|endoftext|>"  # with which braid begins a text
MODEL = ["model.d_model=32", "model.num_layers=2", "model.num_heads=2", "model.d_ff=64",
         "model.sequence_length=256"]


def write_tasks(rng, words, directory):
    """Writes the files of three tasks of braid."""
    def text(least, most):
        return " ".join(rng.choices(words, k=rng.randint(least, most)))

    boolq = [{"passage": text(10, 40), "question": text(3, 9), "answer": rng.random() < .5}
             for _ in range(EXAMPLES)]
    piqa = [{"goal": text(3, 12), "sol1": text(1, 9), "sol2": text(1, 9)} for _ in range(EXAMPLES)]
    labels = [rng.randrange(2) for _ in piqa]
    arc = [{"question": {"stem": text(4, 20), "choices": [
        {"text": text(1, 6), "label": label} for label in "ABCD"]}, "answerKey": rng.choice("ABCD")}
        for _ in range(EXAMPLES)]
    files = {"boolq/dev.jsonl": boolq, "piqa/valid.jsonl": piqa,
             "arc_easy/ARC-Easy-Test.jsonl": arc}
    # The same with fields for templates of lm-eval.
    others = {"boolq": boolq, "piqa": [{**doc, "label": label} for doc, label in zip(piqa, labels)],
              "arc_e": [{"question": doc["question"]["stem"],
                         "choices": [choice["text"] for choice in doc["question"]["choices"]],
                         "label": "ABCD".index(doc["answerKey"])} for doc in arc]}
    files.update({f"{name}.jsonl": docs for name, docs in others.items()})
    for name, docs in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(json.dumps(doc) + "\n" for doc in docs))
    (directory / "piqa/valid-labels.lst").write_text("".join(f"{label}\n" for label in labels))


def harness_tasks(directory):
    templates = {
        "boolq": ("{{passage}}\nQuestion: {{question}}?\nAnswer:", ["no", "yes"], "{{answer | int}}"),
        "piqa": ("Question: {{goal}}\nAnswer:", "{{[sol1, sol2]}}", "label"),
        "arc_e": ("Question: {{question}}\nAnswer:", "choices", "label"),
    }
    for name, (text, choices, target) in templates.items():
        yield {"task": f"braid_{name}", "dataset_path": "json",
               "dataset_kwargs": {"data_files": str(directory / f"{name}.jsonl")},
               "test_split": "train", "output_type": "multiple_choice", "num_fewshot": 0,
               "doc_to_text": END + text, "doc_to_choice": choices, "doc_to_target": target,
               "metric_list": [{"metric": metric, "aggregation": "mean", "higher_is_better": True}
                               for metric in ("acc", "acc_norm")]}


def prepare(scratch):
    rng = random.Random(1)
    words = ["".join(rng.choices("abcdefghijklm", k=rng.randint(2, 7))) for _ in range(300)]
    write_tasks(rng, words, scratch / "tasks")
    texts = [" ".join(rng.choices(words, k=80)) for _ in range(300)]
    (scratch / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=600, special_tokens=[END], show_progress=False,
        initial_alphabet=ByteLevel.alphabet()))
    tokenizer.save(str(scratch / "tokenizer.json"))
    home = Home(scratch)
    home.run("submit", scratch / "corpus.jsonl", "--tokenizer", scratch / "tokenizer.json",
             "--sequence-length", "256", "--set", "pack.heldout_fraction=0", "--wait")
    return home


def braid_figures(home, run, scratch):
    result = home.run("eval", "tasks", run, "--data", scratch / "tasks", "--routing", "segment",
                      "--shots", "0")
    return {(task["task"], metric["name"]): metric["value"]
            for task in result["results"] for metric in task["metrics"]}


def harness_figures(scratch, export):
    results = lm_eval.simple_evaluate(
        model="hf", tasks=list(harness_tasks(scratch / "tasks")), device="cpu", batch_size=1,
        bootstrap_iters=0, model_args={"pretrained": str(export), "trust_remote_code": True,
                                       "dtype": "float32", "max_length": 256})
    return {(name.removeprefix("braid_"), metric.split(",")[0]): value
            for name, metrics in results["results"].items() for metric, value in metrics.items()
            if metric.split(",")[0] in ("acc", "acc_norm")}


def compare(home, scratch, number, experts):
    run = f"run-{number:06d}"
    settings = [argument for value in MODEL for argument in ("--set", value)]
    home.run("train", "--data", "job-000001", "--experts", str(experts), "--segment-length", "16",
             "--steps", "40", "--learning-rate", "3e-3", "--wait", *settings)
    home.run("export", run, "--output", scratch / run)
    ours, theirs = braid_figures(home, run, scratch), harness_figures(scratch, scratch / run)
    same = bool(ours)
    for key, value in ours.items():
        equal = abs(value - theirs[key]) < 1e-6 or abs(value - 100 * theirs[key]) < 1e-4
        same = same and equal
        print(f"{experts} experts, {key[0]} {key[1]}: {value:.4f}, lm-eval {theirs[key]:.4f}"
              f"{'' if equal else ' OTHER'}")
    return same and len({task for task, _ in ours}) == 3


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        home = prepare(scratch)
        return 0 if all([compare(home, scratch, 1, 1), compare(home, scratch, 2, 4)]) else 1


if __name__ == "__main__":
    sys.exit(main())
