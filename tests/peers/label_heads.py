#!/usr/bin/env python3
"""Compares label heads that braid trained and exported with transformers and PEFT.

Trains a small LLaMA and a small GPT-2, tunes them with --label-head, with all weights and with
adapters, on classes and on numbers, and computes the mean loss of all examples from the exported files: as
AutoModelForSequenceClassification, and as adapters that PEFT loads on the exported base. Fails
unless all agree with braid's validation loss of the same examples within 1e-4. Needs
build/bin/braid, torch, transformers and peft.
"""
import json
import os
import pathlib
import random
import sys
import tempfile

os.environ.setdefault("HF_HUB_OFFLINE", "1")
import peft
import torch
import transformers

from braid_command import Home

EXAMPLES = 48
TOLERANCE = 1e-4
WORDS = ["red", "green", "blue", "river", "stone", "cloud", "seven", "eight"]


def write_data(scratch):
    rng = random.Random(3)
    texts = [" ".join(rng.choices(WORDS, k=60)) for _ in range(200)]
    (scratch / "corpus.jsonl").write_text("".join(json.dumps({"text": t}) + "\n" for t in texts))
    prompts = [" ".join(rng.choices(WORDS, k=rng.randint(3, 9))) for _ in range(EXAMPLES)]
    for kind, label in (("classes", lambda p: p.split()[0][0] if "red" in p else "none"),
                        ("regression", lambda p: str(p.count("e") / 4 - 1))):
        lines = [json.dumps({"prompt": p, "completion": " " + label(p)}) for p in prompts]
        (scratch / f"{kind}.jsonl").write_text("\n".join(lines) + "\n")


def stored_examples(home, run):
    """Returns tokens and labels of all examples of the dataset of a run."""
    directory = pathlib.Path(run["spec"]["dataset_dir"])
    count = json.loads((directory / "dataset.json").read_text())["num_instances"]
    examples = []
    for instance in range(count):
        shown = home.run("explain", str(directory), "--instance", str(instance))
        examples += shown["instances"][0]["examples"]
    assert len(examples) == EXAMPLES, len(examples)
    return [(example["tokens"][:-1], example["label"]) for example in examples]


def mean_loss(model, examples):
    losses = []
    for tokens, label in examples:
        with torch.no_grad():
            logits = model(torch.tensor([tokens])).logits[0].double()
        if model.config.problem_type == "regression":
            losses.append((logits[0] - float(label)) ** 2)
        else:
            losses.append(-logits.log_softmax(0)[model.config.label2id[label]])
    return float(torch.stack(losses).mean())


def load(directory, **more):
    model, loading = transformers.AutoModelForSequenceClassification.from_pretrained(
        directory, dtype=torch.float32, output_loading_info=True, **more)
    return model.eval(), sorted(loading["missing_keys"]), sorted(loading["unexpected_keys"])


def compare(home, base, scratch, family, kind, lora):
    data = str(scratch / f"{kind}.jsonl")
    run = home.run("finetune", base["id"], "--data", data, "--validation-data", data,
                   f"--label-head={kind}", "--steps", "20", "--learning-rate", "0.01",
                   "--threads", "1", "--wait", *(["--lora", "r=4,targets=q,v,down"] if lora else []))
    examples = stored_examples(home, run)
    name = f"{family}-{kind}{'-lora' if lora else ''}"
    home.run("export", run["id"], "-o", str(scratch / name))
    merged, missing, unexpected = load(scratch / name)
    expected = run["latest"]["validation"]["loss"]
    losses = {type(merged).__name__: mean_loss(merged, examples)}
    if lora:
        home.run("export", run["id"], "-o", str(scratch / f"{name}-adapter"), "--adapter")
        plain, _, _ = load(scratch / family, num_labels=merged.num_labels)
        adapted = peft.PeftModel.from_pretrained(plain, scratch / f"{name}-adapter").eval()
        plain.config.problem_type = merged.config.problem_type
        plain.config.label2id = merged.config.label2id
        losses["PEFT"] = mean_loss(adapted, examples)
    worst = max(abs(loss - expected) for loss in losses.values())
    print(f"{name}: braid {expected:.6f}, " +
          ", ".join(f"{who} {loss:.6f}" for who, loss in losses.items()) +
          (f", missing {missing}, unexpected {unexpected}" if missing or unexpected else ""))
    return worst <= TOLERANCE and not missing and not unexpected


def main():
    with tempfile.TemporaryDirectory() as directory:
        scratch = pathlib.Path(directory)
        write_data(scratch)
        home = Home(scratch)
        job = home.submit(str(scratch / "corpus.jsonl"))
        results = []
        for family, settings in (("LLAMA", []), ("GPT2", ["--set", "model.family=GPT2"])):
            base = home.run("train", "--data", job["id"], "--steps", "20", "--threads", "1", "--wait",
                            "--set", "model.d_model=32", "--set", "model.num_layers=2",
                            "--set", "model.num_heads=2", "--set", "model.d_ff=64", *settings)
            home.run("export", base["id"], "-o", str(scratch / family))
            results += [compare(home, base, scratch, family, kind, lora)
                        for kind in ("classes", "regression") for lora in (False, True)]
    return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
