#!/usr/bin/env python3
"""Writes tests/formats/golden/tokenizers.json: small byte-level tokenizers of every family that braid
scans by hand, texts, and the ids that the package tokenizers gives them.

Needs tokenizers (written with version 0.23.3); the test needs the file only.
"""
import json
import pathlib
import random
import tempfile

from tokenizers_ids import families, made_text, random_strings, train

VOCABULARY = 290
TEXTS = ["", " ", "the cat  that\u00e9\n12", "I'll we'Ve it's\u2019s", "x = 12345.678; y\t\t=\r\n\r\n 9",
         "caf\u00e9 latte, cafe\u0301 latte <think> <|endoftext", "a\u0323\u0301 \ufb01 \u212b \uff21\u2160",
         "\u4e2d\u6587 \u304b\u306a \ud55c\uae00 \u0e44\u0e17\u0e22 \U0001f600\u200d\U0001f600!!",
         "HTTPServer camelCase snake_case 3rd MAX_SIZE", "\u00a0\u2028 \x0b\x85 end   "]


def main():
    rng = random.Random(3)
    texts = TEXTS + [text[:120] for text in made_text(rng, 12_000)] + list(random_strings(rng, 40))
    golden = {"texts": texts, "families": {}}
    with tempfile.TemporaryDirectory() as scratch:
        for family in families():
            tokenizer, path = train(texts, family, pathlib.Path(scratch), VOCABULARY)
            ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
            golden["families"][family[0]] = {"tokenizer": json.loads(path.read_text()), "ids": ids}
    path = pathlib.Path(__file__).parent.parent / "formats/golden/tokenizers.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(golden, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
