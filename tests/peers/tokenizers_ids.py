#!/usr/bin/env python3
"""Compares the token ids and the speed of byte-level tokenizers with the tokenizers library.

Trains vocabularies of the families that braid scans by hand and of others, and encodes text of many
scripts and random Unicode strings with both. Random characters are those that this Python knows:
later ones have other properties in each library. Needs build/bin/braid-bench-tokenizer and the
package tokenizers.

    tests/peers/tokenizers_ids.py [--text FILE]... [--megabytes 100] [--strings 1000000]
"""
import argparse
import json
import os
import pathlib
import random
import resource
import subprocess
import sys
import tempfile
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
import numpy
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, trainers
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

ROOT = pathlib.Path(__file__).parent.parent.parent
BENCH = pathlib.Path(os.environ.get("BRAID_BIN", ROOT / "build/bin")) / "braid-bench-tokenizer"
CONTRACTIONS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
PUNCTUATION = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = CONTRACTIONS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|" + PUNCTUATION
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PREFIX = r"[^\r\n\p{L}\p{N}]?"
GPT4O = (f"{PREFIX}{UPPER}*{LOWER}+{CONTRACTIONS}?|{PREFIX}{UPPER}+{LOWER}*{CONTRACTIONS}?|"
         + r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
DEEPSEEK = [r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+",
            r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|""" r"[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+|"
            r" ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"]
ADDED = [AddedToken("<think>", normalized=False), AddedToken("caf\u00e9 latte", normalized=True)]
BLOCKS = [(0x61, 0x7a)] * 12 + [(0xdf, 0x17f), (0x3b1, 0x3c9), (0x430, 0x45f), (0x561, 0x586),
          (0x5d0, 0x5ea), (0x621, 0x64a), (0x905, 0x94d), (0xe01, 0xe3a), (0x10d0, 0x10f0),
          (0x3041, 0x3096), (0x4e00, 0x9fa5), (0x4e00, 0x51ff), (0xac00, 0xd7a3), (0x1f600, 0x1f64f)]


def splits(*expressions):
    return Sequence([Split(Regex(regex), "isolated") for regex in expressions]
                    + [ByteLevel(add_prefix_space=False, use_regex=False)])


def families():
    """Yields (name, pre-tokenizer, normalizer, ignore_merges)."""
    gpt2 = ByteLevel(add_prefix_space=False)
    removed = Sequence([Split(Regex(GPT4O), "removed", invert=True),
                        ByteLevel(add_prefix_space=False, use_regex=False)])
    yield "gpt2", gpt2, None, False
    yield "llama3", splits(LLAMA3), None, True
    yield "qwen2", splits(QWEN2), normalizers.NFC(), False
    yield "gpt4o", removed, None, False
    yield "smollm", Sequence([Digits(individual_digits=True), gpt2]), None, False
    yield "deepseek", splits(*DEEPSEEK), normalizers.Sequence([]), False
    yield "nfkc", splits(LLAMA3), normalizers.NFKC(), False


def lexicon(rng, first, last):
    letters = [chr(c) for c in range(first, last + 1) if unicodedata.category(chr(c)) != "Cn"]
    return ["".join(rng.choices(letters, k=rng.randint(1, 9))) for _ in range(3000)]


def made_text(rng, num_bytes):
    """Yields documents of words that repeat as in natural text, in one script each."""
    lexicons = [lexicon(rng, *block) for block in BLOCKS]
    weights = [1 / rank for rank in range(1, 3001)]
    while num_bytes > 0:
        words = rng.choices(rng.choice(lexicons), weights, k=400)
        for i in range(0, len(words), 7):
            words[i] += rng.choice([".", ", ", "!\n", "'s", " 2024", " 3.14", " (x)", "\n\n  ", "\t", " <think>"])
            words[i] = words[i].title() if rng.random() < .5 else words[i].upper()
        text = rng.choice([" ", " ", " ", ""]).join(words)
        num_bytes -= len(text.encode())
        yield text


def given_text(path):
    """Yields the texts of a file, which are JSON lines or plain text cut at blank lines."""
    if path.suffix == ".jsonl":
        for line in path.open():
            yield json.loads(line)["text"]
    else:
        yield from (part for part in path.read_text(errors="replace").split("\n\n") if part)


def known_characters():
    return [chr(c) for c in range(0x110000) if unicodedata.category(chr(c)) not in ("Cn", "Cs", "Co")]


def marked_characters():
    """Yields texts with every character between marks, which normalization composes and sorts."""
    known = known_characters()
    for begin in range(0, len(known), 50):
        yield " ".join(f"a\u0301{c}\u0323 \u0c4d{c}" for c in known[begin:begin + 50])


def random_strings(rng, count):
    known = known_characters()
    common = list(" \n\r\t\u00a0\u2028\x0b\x85''''sStTrRvVmMlLdDeE\u017f\u212aaAzZ019.,/-_()"
                  "\u00e9\u0301\u0308\u4e2d\u0e01\u0663\u00bd\u01c5\u02b0\u0903\u20ac\U0001f600")
    for _ in range(count):
        parts = [rng.choice(known) if rng.random() < .3 else rng.choice(common)
                 for _ in range(rng.randrange(24))]
        if rng.random() < .05:
            parts.insert(len(parts) // 2, rng.choice(["<think>", "caf\u00e9 latte", "cafe\u0301 latte"]))
        yield "".join(parts)


def train(texts, family, directory, vocab_size=24000):
    name, pre_tokenizer, normalizer, ignore_merges = family
    tokenizer = Tokenizer(models.BPE(ignore_merges=ignore_merges))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(texts, trainers.BpeTrainer(
        vocab_size=vocab_size, special_tokens=["<|endoftext|>"], show_progress=False,
        initial_alphabet=ByteLevel.alphabet()))
    tokenizer.add_tokens(ADDED)
    path = directory / f"{name}.json"
    tokenizer.save(str(path))
    return tokenizer, path


def user_seconds():
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def first_difference(tokenizer, texts, num_timed, ids_path):
    """Returns the index of the first text with other ids, or None, and seconds for the first num_timed."""
    ids = numpy.fromfile(ids_path, dtype=numpy.int32)
    place, seconds = 0, 0
    for begin in [*range(0, num_timed, 1000), *range(num_timed, len(texts), 1000)]:
        end = min(begin + 1000, num_timed if begin < num_timed else len(texts))
        start = user_seconds()
        batch = tokenizer.encode_batch_fast(texts[begin:end], add_special_tokens=False)
        seconds += user_seconds() - start if begin < num_timed else 0
        for i, encoding in enumerate(batch):
            count = int(ids[place])
            ours = ids[place + 1:place + 1 + count]
            place += 1 + count
            if ours.tolist() != encoding.ids:
                print(f"  ours   {ours.tolist()[:40]}\n  theirs {encoding.ids[:40]}")
                return begin + i, seconds
    return (None if place == len(ids) else len(texts)), seconds


def compare(name, tokenizer, path, texts, num_timed, directory):
    """Compares ids of all texts, and speed on the first num_timed, with a tokenizer and its file."""
    text_path, ids_path = directory / "texts.jsonl", directory / "ids.bin"
    subprocess.run([BENCH, "--tokenizer", path, "--texts", text_path, "--ids", ids_path,
                    "--repeats", "1"], check=True, stdout=subprocess.DEVNULL)
    other, seconds = first_difference(tokenizer, texts, num_timed, ids_path)
    if other is not None:
        print(f"{name}: OTHER ids for text {other}, {texts[other][:200]!r}")
        return False
    timed_path = directory / "timed.jsonl"
    report = json.loads(subprocess.run([BENCH, "--tokenizer", path, "--texts", timed_path, "--repeats", "1"],
                                       check=True, capture_output=True, text=True).stdout)
    theirs = report["bytes"] / 1e6 / seconds
    ours, empty, alone = (report[f"megabytes_per_cpu_second{kind}"]
                          for kind in ("", "_from_empty_cache", "_without_cache"))
    print(f"{name}: same ids of {len(texts)} texts; {ours:.1f} MB per CPU second, {empty:.1f} from an empty cache, "
          f"{alone:.1f} without it, tokenizers {theirs:.1f}: {empty / theirs:.1f} times", flush=True)
    return True


def write_texts(texts, num_timed, directory):
    """Writes the files of texts that compare() reads."""
    for file, count in (("texts.jsonl", len(texts)), ("timed.jsonl", num_timed)):
        with open(directory / file, "w") as lines:
            lines.writelines(json.dumps(text) + "\n" for text in texts[:count])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=pathlib.Path, action="append", default=[])
    parser.add_argument("--megabytes", type=float, default=20)
    parser.add_argument("--strings", type=int, default=200_000)
    parser.add_argument("--families", default="")
    arguments = parser.parse_args()
    rng = random.Random(1)
    texts = [text for path in arguments.text for text in given_text(path)]
    texts += made_text(rng, arguments.megabytes * 1e6 - sum(len(t.encode()) for t in texts))
    rng.shuffle(texts)
    num_timed = len(texts)
    texts += marked_characters()
    texts += random_strings(rng, arguments.strings)
    with tempfile.TemporaryDirectory() as name:
        directory = pathlib.Path(name)
        write_texts(texts, num_timed, directory)
        chosen = [family for family in families()
                  if not arguments.families or family[0] in arguments.families.split(",")]
        trained = ((family[0], *train(texts[:num_timed // 4], family, directory)) for family in chosen)
        return 0 if all([compare(*one, texts, num_timed, directory) for one in trained]) else 1


if __name__ == "__main__":
    sys.exit(main())
