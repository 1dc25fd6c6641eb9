#!/usr/bin/env python3
"""Compares adapters with PEFT in both directions, on models with LLaMA's and GPT-2's layout.

Trains a small model and adapters for it; PEFT loads the exported adapters on the exported base and
must give the logits of the merged export. Then PEFT writes random adapters for that base, braid
imports them, and the merged export must give PEFT's logits. Fails above 1e-5 of the range of the
logits. Needs build/bin/braid, torch, transformers and peft.
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

TOLERANCE = 1e-5
WORDS = ["red", "green", "blue", "river", "stone", "cloud", "seven", "eight"]
TOKENS = torch.tensor([[(37 * i + 5) % 290 for i in range(24)]])
FAMILIES = {
    "llama": ([], "q,k,v,o,gate,up,down", dict(target_modules=["q_proj", "v_proj", "down_proj"])),
    "gpt2": (["--set", "model.family=GPT2"], "q,v,up,down",
             dict(target_modules=["c_attn", "c_fc", "c_proj"], fan_in_fan_out=True)),
}


def write_data(scratch):
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=60)) for _ in range(200)]
    (scratch / "corpus.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    records = [{"prompt": " ".join(rng.choices(WORDS, k=6)), "completion": " " + rng.choice(WORDS)}
               for _ in range(40)]
    (scratch / "records.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))


def load(directory):
    return transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32).eval()


def logits_of(model):
    with torch.no_grad():
        return model(TOKENS).logits


def agree(what, logits, expected):
    difference = float((logits - expected).abs().max() / (expected.max() - expected.min()))
    print(f"{what}: largest difference {difference:.1e} of the range")
    return difference <= TOLERANCE


def compare(home, job, scratch, family):
    settings, targets, config = FAMILIES[family]
    base = home.run("train", "--data", job["id"], "--steps", "20", "--threads", "1", "--wait",
                    "--set", "model.d_model=32", "--set", "model.num_layers=2",
                    "--set", "model.num_heads=2", "--set", "model.d_ff=64", *settings)
    run = home.run("finetune", base["id"], "--data", str(scratch / "records.jsonl"), "--steps", "20",
                   "--learning-rate", "0.01", "--threads", "1", "--lora", f"r=3,alpha=5,targets={targets}",
                   "--wait")
    directory = scratch / family
    home.run("export", base["id"], "-o", str(directory / "base"))
    home.run("export", run["id"], "-o", str(directory / "merged"))
    home.run("export", run["id"], "-o", str(directory / "adapter"), "--adapter")
    plain = logits_of(load(directory / "base"))
    merged = logits_of(load(directory / "merged"))
    assert (merged - plain).abs().max() > 1e-2, "the adapters changed nothing"
    same = agree(f"{family}, braid's adapters in PEFT",
                 logits_of(peft.PeftModel.from_pretrained(load(directory / "base"), directory / "adapter").eval()),
                 merged)

    torch.manual_seed(1)
    theirs = peft.get_peft_model(load(directory / "base"), peft.LoraConfig(
        r=4, lora_alpha=6, task_type="CAUSAL_LM", init_lora_weights=False, **config)).eval()
    theirs.save_pretrained(directory / "theirs")
    home.run("import", "--adapter", str(directory / "theirs"), "--base", base["id"],
             "-o", str(directory / "imported"))
    home.run("export", str(directory / "imported"), "-o", str(directory / "imported-merged"))
    return same & agree(f"{family}, PEFT's adapters in braid", logits_of(load(directory / "imported-merged")),
                        logits_of(theirs))


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        write_data(scratch)
        home = Home(scratch)
        job = home.submit(str(scratch / "corpus.jsonl"))
        return 0 if all([compare(home, job, scratch, family) for family in FAMILIES]) else 1


if __name__ == "__main__":
    sys.exit(main())
