#!/usr/bin/env python3
"""Constructs the labeled sentences of probes a second time, straight from the rules of SentEval.

usage: probe_labels.py TEXT SEED NUM_SENTENCES [NUM_WORDS]
Prints one line a sentence: probe, part (training or test), label and text, separated by tabs.
"""
import collections
import re
import sys

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
BINS = [(5, 8), (9, 12), (13, 16), (17, 20), (21, 25), (26, 28)]
ABBREVIATIONS = set("capt co col corp dr e.g etc fig gen gov i.e inc jr ltd mr mrs ms mt no prof rev sr st vs".split())
PUNCTUATION = r"""!"#$%&'()*+,-./:;<=>?@[\]^_`{|}~"""


def mix(x):
    x = (x + GOLDEN) & MASK
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def mix_text(seed, text):
    data = text.encode()
    state = mix(mix(seed) ^ len(data))
    for byte in data:
        state = mix(mix(state) ^ byte)
    return state


def bare(word):
    return word.strip(PUNCTUATION).lower()


def ends(word):
    word = word.rstrip("\"')]}\u201d\u2019\u00bb")
    if word.endswith(("!", "?")):
        return True
    if not word.endswith("."):
        return False
    inner = word.lstrip("\"'([{\u201c\u2018")
    return not re.fullmatch(r"[A-HJ-Z]\.", inner) and inner[:-1].lower() not in ABBREVIATIONS


def begins(word):
    return re.match("[\"'(\\[{\u201c\u2018]*[A-Z\u0080-\U0010ffff]", word) is not None


def sentences_of(text):
    for paragraph in re.split(r"\n[ \t]*(?=\n)", text):
        current = []
        words = paragraph.split()
        for i, word in enumerate(words):
            current.append(word)
            if not ends(word) or (i + 1 < len(words) and not begins(words[i + 1])):
                continue
            letters = sum(re.search("[A-Za-z\u0080-\U0010ffff]", w) is not None for w in current)
            if 5 <= len(current) <= 28 and begins(current[0]) and letters >= .8 * len(current):
                yield " ".join(current)
            current = []


def swap_words(sentence):
    words = sentence.split(" ")
    plain = [re.fullmatch("[a-z]+", w) is not None for w in words]
    places = [i for i in range(1, len(words) - 1) if plain[i] and plain[i + 1] and words[i] != words[i + 1]]
    if not places:
        return None
    at = places[mix_text(1, sentence) % len(places)]
    return " ".join(words[:at] + [words[at + 1], words[at]] + words[at + 2:])


def swap_clauses(sentence, lower_case):
    found = re.fullmatch(r"([^,;:\"()]+)(, and |, but |; )([^,;:\"()]+)([.!?])", sentence)
    if not found:
        return None
    first, mark, second, end = found.groups()
    if min(len(first.split(" ")), len(second.split(" "))) < 3 or not re.match("[A-Za-z]", second):
        return None
    if bare(first.split(" ")[0]) in lower_case:
        first = first[0].lower() + first[1:]
    return second[0].upper() + second[1:] + mark + first + end


def word_classes(sentences, count):
    classes = int(sys.argv[4]) if len(sys.argv) > 4 else min(max(count // 40, 2), 1000)
    frequency = collections.Counter(bare(w) for s in sentences for w in s.split(" "))
    ranked = sorted((w for w in frequency if w and w.isalpha()), key=lambda w: (-frequency[w], w))
    for first in range(2 * classes, -1, -max(1, classes // 4)):
        chosen = ranked[first:first + classes]
        if len(chosen) < classes:
            continue
        labels = []
        for sentence in sentences:
            hits = [chosen.index(b) for b in map(bare, sentence.split(" ")) if b in chosen]
            labels.append(hits[0] if len(hits) == 1 else None)
        if min(collections.Counter(labels)[c] for c in range(classes)) >= count // classes:
            return classes, labels
    raise SystemExit("too few sentences")


def show(probe, classes, labeled, count):
    of_class = count // classes
    taken = collections.Counter()
    for text, label in labeled:
        taken[label] += 1
        if taken[label] <= of_class:
            part = "training" if taken[label] <= of_class * 4 // 5 else "test"
            print(probe, part, label, text, sep="\t")


def main():
    text = open(sys.argv[1], encoding="utf-8").read()
    seed, count = int(sys.argv[2]), int(sys.argv[3])
    pool = {}
    for sentence in sentences_of(text):
        words = sentence.split(" ")
        pool.setdefault(mix_text(seed, "".join(bare(w) + " " for w in words)), sentence)
    sentences = [pool[key] for key in sorted(pool)]
    balance = collections.Counter()
    for sentence in sentences:
        for word in sentence.split(" ")[1:]:
            balance[bare(word)] += 1 if bare(word) in word else -1
    lower_case = {word for word in balance if balance[word] > 0}
    lengths = [next(i for i, b in enumerate(BINS) if b[0] <= s.count(" ") + 1 <= b[1]) for s in sentences]
    show("length", 6, zip(sentences, lengths), count)
    classes, labels = word_classes(sentences, count)
    show("words", classes, [(s, l) for s, l in zip(sentences, labels) if l is not None], count)
    for probe, swap in (("swapped_words", swap_words), ("swapped_clauses", lambda s: swap_clauses(s, lower_case))):
        pairs = [(s, swap(s)) for s in sentences if swap(s) is not None]
        show(probe, 2, [(p[i % 2], i % 2) for i, p in enumerate(pairs)], count)


main()
