#!/usr/bin/env python3
"""Prints how similar adjacent documents are inside the sequences of datasets.

    window_similarity.py DATASET...

A dataset is the directory `HOME/store/pack-...` of a corpus job. Prints one line for the training
instances and one for the held-out windows of each domain: the pairs of adjacent documents in a
sequence, the mean cosine of their token counts times inverse document frequencies, and that of
random pairs of the same documents. Documents, and parts of them, of fewer than 16 tokens are left
out.
"""

import argparse
import collections
import json
import math
import pathlib
import random
import statistics

from copying_rate import sequences

MIN_TOKENS = 16
RANDOM_PAIRS = 5000


def documents(prefix, eos):
    """Returns the documents, or parts of them, in each sequence, as counts of tokens."""
    found = []
    for tokens in sequences(prefix):
        ends = [i + 1 for i, token in enumerate(tokens) if token == eos]
        cuts = [0, *ends, len(tokens)]
        found.append([collections.Counter(tokens[a:b]) for a, b in zip(cuts, cuts[1:]) if b > a])
    return found


def cosine(a, b, weights):
    def product(x, y):
        return sum(n * y[token] * weights[token] ** 2 for token, n in x.items() if token in y)

    return product(a, b) / math.sqrt(product(a, a) * product(b, b))


def similarities(found, weights):
    """Returns the number of adjacent pairs, and the means of them and of random pairs."""
    def counts(document):
        return sum(document.values()) >= MIN_TOKENS

    pairs = [pair for sequence in found for pair in zip(sequence, sequence[1:])
             if all(map(counts, pair))]
    if not pairs:
        return 0, math.nan, math.nan
    all_documents = [document for sequence in found for document in sequence if counts(document)]
    source = random.Random(0)
    others = [source.sample(all_documents, 2) for _ in range(RANDOM_PAIRS)]
    return (len(pairs), statistics.fmean(cosine(*pair, weights) for pair in pairs),
            statistics.fmean(cosine(*pair, weights) for pair in others))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("datasets", nargs="+", type=pathlib.Path, metavar="DATASET")
    for directory in parser.parse_args().datasets:
        dataset = json.loads((directory / "dataset.json").read_text())
        training = documents(directory / "instances", dataset["eos_id"])
        containing = collections.Counter(
            token for sequence in training for document in sequence for token in document)
        total = sum(map(len, training))
        # Every document ends with EOS, and a token may occur in held-out documents alone.
        weights = collections.defaultdict(lambda: math.log(total), {
            token: math.log(total / n) for token, n in containing.items()})
        weights[dataset["eos_id"]] = 0.0
        print(f"{directory.name}  {dataset['order']}")
        parts = [("training", training)] + [
            (f"held-out {domain}", documents(directory / "heldout" / domain, dataset["eos_id"]))
            for domain in dataset["domains"]]
        for name, found in parts:
            number, adjacent, other = similarities(found, weights)
            print(f"  {name:24}  {number:6} pairs  adjacent {adjacent:.4f}  random {other:.4f}")


if __name__ == "__main__":
    main()
