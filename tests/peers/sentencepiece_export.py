#!/usr/bin/env python3
"""Compares the tokenizer.json that braid exports for its SentencePiece models with the model.

Trains a tokenizer on text of many scripts, exports a language model with it, and encodes that
text and random Unicode strings with AutoTokenizer on the exported directory and with SentencePiece
on its tokenizer.model. Needs build/bin/braid and the packages transformers and sentencepiece.
"""
import json
import pathlib
import random
import sys
import tempfile

import sentencepiece
import transformers

from braid_command import Home
from tokenizers_ids import made_text, marked_characters, random_strings


def exported(texts, scratch):
    corpus = scratch / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    home = Home(scratch)
    home.run("submit", corpus, "--vocab-size", "20000", "--sequence-length", "128", "--order", "RANDOM",
             "--wait")
    home.run("train", "--data", "job-000001", "--preset", "tiny", "--steps", "1", "--wait")
    home.run("export", "run-000001", "--output", scratch / "export")
    return scratch / "export"


def compare(directory, texts):
    theirs = transformers.AutoTokenizer.from_pretrained(directory)
    model = sentencepiece.SentencePieceProcessor(model_file=str(directory / "tokenizer.model"))
    # Only SentencePiece takes a special token in a text for text, and neither gives U+2581 back.
    texts = [text for text in texts if not any(token in text for token in theirs.all_special_tokens)]
    others = 0
    for text in texts:
        ids = theirs(text, add_special_tokens=False).input_ids
        if ids == model.encode(text) and ("\u2581" in text or theirs.decode(ids) == text):
            continue
        others += 1
        print(f"  OTHER ids or text: {text[:80]!r} {ids[:20]} {model.encode(text)[:20]}")
    print(f"{directory.name}: {others} of {len(texts)} texts with other ids or text")
    return others == 0


def main():
    rng = random.Random(1)
    trained = list(made_text(rng, 2e6))
    texts = ["", " ", " a", "\n a", *trained, *marked_characters(), *random_strings(rng, 50_000)]
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        return 0 if compare(exported(trained, scratch), texts) else 1


if __name__ == "__main__":
    sys.exit(main())
