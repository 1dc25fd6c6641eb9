#!/usr/bin/env python3
"""Compares the near-duplicates that braid finds by MinHash with those of the package datasketch.

Plants copies with some words replaced in random text, computes the Jaccard similarities of their
character 5-grams exactly, and lets both search with 14 bands of 8. Needs build/bin/braid and the
package datasketch.
"""
import json
import pathlib
import random
import sys
import tempfile

import numpy
from datasketch import MinHash, MinHashLSH

from braid_command import Home

ORIGINALS, BANDS, ROWS, MIN_JACCARD = 400, 14, 8, .8


def grams(text):
    return {text[i:i + 5] for i in range(len(text) - 4)}


def jaccard(a, b):
    return len(a & b) / len(a | b)


def made_texts(rng):
    """Returns texts, the second half of which are edited copies of the first."""
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=6)) for _ in range(20000)]
    originals = [rng.choices(words, k=120) for _ in range(ORIGINALS)]
    copies = []
    for original in originals:
        rate = rng.uniform(.005, .12)
        copies.append([rng.choice(words) if rng.random() < rate else word for word in original])
    return [" ".join(text) for text in originals + copies]


def found_by_datasketch(sets):
    lsh = MinHashLSH(num_perm=BANDS * ROWS, params=(BANDS, ROWS))
    found = set()
    for i, gram_set in enumerate(sets):
        signature = MinHash(num_perm=BANDS * ROWS, seed=1)
        signature.update_batch([gram.encode() for gram in gram_set])
        found |= {(other, i) for other in lsh.query(signature)}
        lsh.insert(i, signature)
    return found


def found_by_braid(scratch, texts):
    corpus = scratch / "corpus.jsonl"
    corpus.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    home = Home(scratch)
    home.submit(corpus, "--near-duplicates", "minhash", "--order", "SOURCE")
    pairs = numpy.load(home.stage("deduplicate") / "duplicate_pairs.npy")
    return {tuple(sorted(map(int, pair[:2]))) for pair in pairs}


def main():
    rng = random.Random(1)
    texts = made_texts(rng)
    sets = [grams(text) for text in texts]
    planted = {(i, i + ORIGINALS) for i in range(ORIGINALS)
               if jaccard(sets[i], sets[i + ORIGINALS]) >= MIN_JACCARD}
    with tempfile.TemporaryDirectory() as name:
        ours = found_by_braid(pathlib.Path(name), texts)
    theirs = found_by_datasketch(sets)
    recall, other_recall = (len(planted & found) / len(planted) for found in (ours, theirs))
    wrong = sum(jaccard(sets[i], sets[j]) < MIN_JACCARD for i, j in ours)
    print(f"{len(planted)} planted pairs: recall {recall:.4f}, datasketch {other_recall:.4f}; "
          f"{wrong} pairs below the limit")
    return 0 if recall >= max(.99, other_recall) and wrong == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
