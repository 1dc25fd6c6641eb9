#!/usr/bin/env python3
"""Writes tests/retrieval/golden: a tiny sentence-transformers directory with random weights, and the
vectors that the package gives texts with each pooling.

Needs torch, transformers and sentence-transformers (written with versions 2.15, 5.23 and 6.2); the
test needs the files only.
"""
import json
import pathlib
import random
import shutil
import tempfile

import torch
import transformers
from sentence_transformers import SentenceTransformer, models

from sentence_embeddings import PIECES, WORDS

DIRECTORY = pathlib.Path(__file__).parent.parent / "retrieval/golden"
PROMPT = "passage: "


def main():
    rng = random.Random(5)
    texts = [" ".join(rng.choices(WORDS, k=rng.randrange(1, 30))) for _ in range(12)]
    shutil.rmtree(DIRECTORY, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        encoder = pathlib.Path(scratch)
        (encoder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
        transformers.BertTokenizerFast(str(encoder / "vocab.txt")).save_pretrained(encoder)
        torch.manual_seed(5)
        transformers.BertModel(transformers.BertConfig(
            vocab_size=len(PIECES), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
            intermediate_size=32, max_position_embeddings=24, initializer_range=.3)).save_pretrained(encoder)
        golden = {"texts": texts, "prompt": PROMPT}
        for pooling in ("cls", "lasttoken", "mean"):
            modules = [models.Transformer(str(encoder), max_seq_length=20),
                       models.Pooling(16, pooling_mode=pooling), models.Normalize()]
            model = SentenceTransformer(modules=modules, device="cpu", default_prompt_name="document",
                                        prompts={"document": PROMPT})
            golden[pooling] = [[float(f"{x:.8g}") for x in row] for row in model.encode(texts).tolist()]
        model.save(str(DIRECTORY / "model"), create_model_card=False)
    (DIRECTORY / "vectors.json").write_text(json.dumps(golden, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
