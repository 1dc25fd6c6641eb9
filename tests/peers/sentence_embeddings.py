#!/usr/bin/env python3
"""Compares embeddings of sentence-transformers directories with the package sentence-transformers.

Makes BERT encoders with random weights, one for each pooling, with a limit of tokens and a prompt,
and embeds texts with both. Needs build/bin/braid and the packages torch, transformers and
sentence-transformers.
"""
import json
import pathlib
import random
import sys
import tempfile

import numpy
import torch
import transformers
from sentence_transformers import SentenceTransformer, models

from braid_command import Home

TOLERANCE = 1e-5
WORDS = ["the", "cat", "sat", "on", "a", "mat", "Café", "naïve", "running", "unhappy", ",", "!", "中文"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "a", "mat", "cafe",
          "naive", "run", "##ning", "un", "##happy", ",", "!", "中", "passage", ":"]


def write_model(directory, pooling, prompt, limit):
    encoder = directory / "encoder"
    encoder.mkdir(parents=True)
    (encoder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    transformers.BertTokenizerFast(str(encoder / "vocab.txt")).save_pretrained(encoder)
    torch.manual_seed(len(pooling))
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=48, num_hidden_layers=3, num_attention_heads=4,
        intermediate_size=96, max_position_embeddings=64, initializer_range=.3)
    transformers.BertModel(config).save_pretrained(encoder)
    transformer = models.Transformer(str(encoder), max_seq_length=limit)
    modules = [transformer, models.Pooling(48, pooling_mode=pooling), models.Normalize()]
    prompts = {"prompts": {"document": prompt}, "default_prompt_name": "document"} if prompt else {}
    model = SentenceTransformer(modules=modules, device="cpu", **prompts)
    saved = directory / "saved"
    model.save(str(saved))
    return model, saved


def compare(scratch, name, prompt, limit):
    directory = scratch / name
    model, saved = write_model(directory, name, prompt, limit)
    rng = random.Random(name)
    texts = [" ".join([str(i), *rng.choices(WORDS, k=rng.randrange(1, 60))]) for i in range(40)]
    corpus = directory / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    home = Home(directory)
    home.submit(corpus, "--embedder", "contriever", "--embedder-model", saved)
    ours = numpy.load(home.stage("embed") / "embeddings.npy").astype(numpy.float64)
    worst = numpy.abs(model.encode(texts) - ours).max()
    print(f"pooling {name}, prompt {prompt!r}, {limit} tokens: {len(texts)} texts, "
          f"largest difference {worst:.1e}")
    return worst <= TOLERANCE


def main():
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        results = [compare(scratch, "mean", "", 64), compare(scratch, "cls", "", 32),
                   compare(scratch, "lasttoken", "passage: ", 48)]
        return 0 if all(results) else 1


if __name__ == "__main__":
    sys.exit(main())
