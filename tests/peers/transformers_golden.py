#!/usr/bin/env python3
"""Writes the models of tests/inference/huggingface/golden and the logits that they give.

Each is a tiny model with random weights of an architecture that braid imports, saved by
transformers: config.json, model.safetensors and logits.npy [1, 9, vocabulary] of the tokens
(37 i + 5) mod 280. Those of TRAINED also have gradients.safetensors, the gradients of the summed loss
of these tokens but the first, and greedy.npy, the 12 tokens that follow them. Needs torch and
transformers (written with versions 2.15 and 5.23); the tests need the files only. Arguments name the
models to write; default: all.
"""
import pathlib
import shutil
import sys

import numpy
import safetensors.torch
import torch
import transformers

VOCABULARY = 288  # 280 tokens, and 8 rows of padding
TOKENS = torch.tensor([[(37 * i + 5) % 280 for i in range(9)]])
SHAPE = {
    "vocab_size": VOCABULARY,
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": None,
    "initializer_range": 0.3,
}
LLAMA3 = {
    "rope_type": "llama3",
    "rope_theta": 100.0,
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 16,
}
LINEAR = {"rope_type": "linear", "rope_theta": 10000.0, "factor": 2.5}
MODELS = {
    "llama2": transformers.LlamaConfig(**{**SHAPE, "num_key_value_heads": 4}),
    "llama3": transformers.LlamaConfig(**SHAPE, rope_parameters=LLAMA3, tie_word_embeddings=True),
    "linear": transformers.LlamaConfig(**SHAPE, rope_parameters=LINEAR, head_dim=6),
    "mistral": transformers.MistralConfig(**SHAPE, sliding_window=None),
    "mixtral": transformers.MixtralConfig(**SHAPE, num_local_experts=3, num_experts_per_tok=2),
    "qwen2": transformers.Qwen2Config(**SHAPE, tie_word_embeddings=True),
    "qwen3": transformers.Qwen3Config(**SHAPE, head_dim=10),
    "gpt2": transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=40, n_embd=16, n_layer=2, n_head=4, n_inner=24,
        bos_token_id=2, eos_token_id=2, initializer_range=0.3),
}
TRAINED = ["llama3", "qwen2", "gpt2"]


def make(name, config, directory):
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter += 0.3 * torch.randn(parameter.shape)
    shutil.rmtree(directory, ignore_errors=True)
    model.to(torch.bfloat16).save_pretrained(directory)
    (directory / "generation_config.json").unlink(missing_ok=True)
    # Conversion of the model itself would also round its rotary frequencies.
    saved = transformers.AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32)
    with torch.no_grad():
        logits = saved.eval()(TOKENS).logits
    numpy.save(directory / "logits.npy", logits.numpy())
    if name in TRAINED:
        put_training_and_decoding(saved, directory)


def put_training_and_decoding(model, directory):
    (8 * model(TOKENS, labels=TOKENS).loss).backward()
    gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
    safetensors.torch.save_file(gradients, directory / "gradients.safetensors")
    tokens = model.generate(TOKENS, max_new_tokens=12, do_sample=False, eos_token_id=None,
                            suppress_tokens=list(range(280, VOCABULARY)))
    numpy.save(directory / "greedy.npy", tokens[:, TOKENS.shape[1]:].to(torch.int32).numpy())


if __name__ == "__main__":
    root = pathlib.Path(__file__).parent.parent / "inference/huggingface/golden"
    for name in sys.argv[1:] or MODELS:
        make(name, MODELS[name], root / name)
