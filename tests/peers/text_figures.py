#!/usr/bin/env python3
"""Compares figures of tasks with sacrebleu, rouge-score, scikit-learn and SciPy.

    BRAID_CASES=DIR build/tests/evaluation_tests --gtest_filter='FigureCasesTest.*'
    tests/peers/text_figures.py DIR/figures.json

The file has texts, labels and numbers with braid's figures. Fails unless all agree within 1e-9:

BLEU        corpus BLEU of sacrebleu, tokenizer 13a, lower case, no smoothing
ROUGE_L     rouge-score gives precision P and recall R of the longest common subsequence for each
            reference. Its own figure is 2 P R / (P + R) of the best reference. braid's is that of the
            COCO caption scripts: the best P and the best R over the references, in
            (1 + b^2) P R / (R + b^2 P) with b = 1.2, and the mean over texts. The words are braid's,
            since rouge-score takes only letters and digits.
MATTHEWS    matthews_corrcoef
MACRO_F1    f1_score, average="macro"
PEARSON     scipy.stats.pearsonr
"""
import json
import pathlib
import sys

import sacrebleu
import scipy.stats
import sklearn.metrics
from rouge_score import rouge_scorer

TOLERANCE = 1e-9
BETA2 = 1.2 ** 2


class SplitAtSpaces:
    """A tokenizer for rouge-score."""

    def tokenize(self, text):
        return text.split(" ")


def bleu(pairs):
    most = max(len(pair["references"]) for pair in pairs)
    references = [[pair["references"][i] if i < len(pair["references"]) else None for pair in pairs]
                  for i in range(most)]
    metric = sacrebleu.BLEU(lowercase=True, tokenize="13a", smooth_method="none")
    return metric.corpus_score([pair["candidate"] for pair in pairs], references).score / 100


def rouge_l(pairs):
    scorer = rouge_scorer.RougeScorer(["rougeL"], tokenizer=SplitAtSpaces())
    total = 0
    for pair in pairs:
        candidate = " ".join(pair["candidate_words"])
        scores = [scorer.score(" ".join(words), candidate)["rougeL"] for words in pair["reference_words"]]
        precision = max(score.precision for score in scores)
        recall = max(score.recall for score in scores)
        if precision * recall > 0:
            total += (1 + BETA2) * precision * recall / (recall + BETA2 * precision)
    return total / len(pairs)


def expected_figures(cases):
    """Yields name, braid's figure and that of the package."""
    texts = cases["texts"]
    yield "BLEU", texts["BLEU"], bleu(texts["pairs"])
    yield "ROUGE_L", texts["ROUGE_L"], rouge_l(texts["pairs"])
    for labels in cases["labels"]:
        right, predicted = zip(*labels["predictions"])
        name = f"of {max(right) + 1} labels"
        yield f"MATTHEWS {name}", labels["MATTHEWS"], sklearn.metrics.matthews_corrcoef(right, predicted)
        yield f"MACRO_F1 {name}", labels["MACRO_F1"], sklearn.metrics.f1_score(right, predicted, average="macro")
    right, predicted = zip(*cases["numbers"]["pairs"])
    yield "PEARSON", cases["numbers"]["PEARSON"], scipy.stats.pearsonr(right, predicted).statistic


def main(path):
    worst = 0
    for name, ours, theirs in expected_figures(json.loads(pathlib.Path(path).read_text())):
        print(f"{name}: braid {ours:.10f}, package {theirs:.10f}")
        worst = max(worst, abs(ours - theirs))
    print(f"largest difference {worst:.1e}")
    return 0 if worst <= TOLERANCE else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
