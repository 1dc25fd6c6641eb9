#!/usr/bin/env python3
"""Writes the adapters of tests/inference/huggingface/golden with PEFT, or checks exported ones.

peft_golden.py [NAME]              writes NAME/adapter_config.json, adapter_model.safetensors and
                                   logits.npy for adapters on the models of transformers_golden.py
peft_golden.py BASE ADAPTER LOGITS loads an adapter that braid exported on the Hugging Face model
                                   BASE, and fails unless its logits are those of LOGITS, a .npy
                                   file, within 1e-5 of their range

Needs torch, transformers and peft (written with versions 2.15, 5.23 and 0.21); the tests need the
files only.
"""
import json
import pathlib
import sys

import numpy
import peft
import torch
import transformers

TOKENS = torch.tensor([[(37 * i + 5) % 280 for i in range(9)]])
GOLDEN = pathlib.Path(__file__).parent.parent / "inference/huggingface/golden"
ALL = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
ADAPTERS = {
    "llama2-adapter": ("llama2", dict(r=4, lora_alpha=6, target_modules=["q_proj", "v_proj"])),
    "qwen2-adapter": ("qwen2", dict(r=3, lora_alpha=5, use_rslora=True, lora_dropout=0.1,
                                    target_modules=ALL, layers_to_transform=[1])),
    "gpt2-adapter": ("gpt2", dict(r=3, lora_alpha=5, fan_in_fan_out=True,
                                  target_modules=["c_attn", "c_proj", "c_fc"])),
    "labels-adapter": ("llama2", dict(r=2, lora_alpha=4, task_type="SEQ_CLS",
                                      target_modules=["q_proj", "down_proj"])),
}


def load(base, task="CAUSAL_LM", **more):
    kinds = {"CAUSAL_LM": transformers.AutoModelForCausalLM,
             "SEQ_CLS": transformers.AutoModelForSequenceClassification}
    return kinds[task].from_pretrained(base, dtype=torch.float32, **more).eval()


def logits_of(model):
    with torch.no_grad():
        return model.eval()(TOKENS).logits.numpy()


def make(base, settings, directory):
    torch.manual_seed(2)
    config = peft.LoraConfig(**{"task_type": "CAUSAL_LM", **settings})
    more = {"num_labels": 3, "pad_token_id": 0} if config.task_type == "SEQ_CLS" else {}
    model = peft.get_peft_model(load(base, config.task_type, **more), config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter += 0.3 * torch.randn(parameter.shape)
    model.save_pretrained(directory)
    (directory / "README.md").unlink(missing_ok=True)
    path = directory / "adapter_config.json"
    text = json.loads(path.read_text())
    text["base_model_name_or_path"] = base.name
    text["target_modules"] = sorted(text["target_modules"])
    path.write_text(json.dumps(text, indent=2, sort_keys=True) + "\n")
    (directory / "adapter_model.safetensors").chmod(0o644)
    numpy.save(directory / "logits.npy", logits_of(model))


def check(base, adapter, expected):
    wanted = numpy.load(expected)
    got = logits_of(peft.PeftModel.from_pretrained(load(base), adapter))
    difference = numpy.abs(got - wanted.reshape(got.shape)).max() / numpy.abs(wanted).max()
    print(f"largest difference {difference:.2e} of the range")
    return 0 if difference <= 1e-5 else 1


if __name__ == "__main__":
    if len(sys.argv) == 4:
        sys.exit(check(*sys.argv[1:]))
    for name, (base, settings) in ADAPTERS.items():
        if len(sys.argv) == 1 or name in sys.argv[1:]:
            make(GOLDEN / base, settings, GOLDEN / name)
