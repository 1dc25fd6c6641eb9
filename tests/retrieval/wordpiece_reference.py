"""BERT's tokenization a second time, in passes over the whole text; see wordpiece_tokenizer_test.cc.

    wordpiece_reference.py VOCABULARY TEXTS IDS

TEXTS: for each text its length in 4 bytes, little-endian, and its bytes. IDS: the same of 32-bit
ids, between [CLS] and [SEP], of any number.
"""
import struct
import sys
import unicodedata

IDEOGRAPHS = [(0x4E00, 0x9FFF), (0x3400, 0x4DBF), (0x20000, 0x2A6DF), (0x2A700, 0x2B73F),
              (0x2B740, 0x2B81F), (0x2B820, 0x2CEAF), (0xF900, 0xFAFF), (0x2F800, 0x2FA1F)]


def clean(text):
    kept = []
    for c in text:
        if c in "\t\n\r" or unicodedata.category(c) == "Zs":
            kept.append(" ")
        elif c not in "\0\ufffd" and not unicodedata.category(c).startswith("C"):
            kept.append(c)
    return "".join(kept)


def is_ideograph(c):
    return any(first <= ord(c) <= last for first, last in IDEOGRAPHS)


def space_ideographs(text):
    return "".join(f" {c} " if is_ideograph(c) else c for c in text)


def strip_accents(word):
    return "".join(c for c in unicodedata.normalize("NFD", word) if unicodedata.category(c) != "Mn")


def is_punctuation(c):
    code = ord(c)
    ascii_symbol = 33 <= code <= 47 or 58 <= code <= 64 or 91 <= code <= 96 or 123 <= code <= 126
    return ascii_symbol or unicodedata.category(c).startswith("P")


def split_punctuation(word):
    return "".join(f" {c} " if is_punctuation(c) else c for c in word).split()


def pieces(word, vocabulary):
    if len(word) > 100:
        return ["[UNK]"]
    found, begin = [], 0
    while begin < len(word):
        for end in range(len(word), begin, -1):
            piece = ("##" if begin else "") + word[begin:end]
            if piece in vocabulary:
                break
        else:
            return ["[UNK]"]
        found.append(piece)
        begin = end
    return found


def encode(text, vocabulary):
    ids = [vocabulary["[CLS]"]]
    for run in space_ideographs(clean(text)).split():
        for word in split_punctuation(strip_accents(run.lower())):
            ids += [vocabulary[piece] for piece in pieces(word, vocabulary)]
    return ids + [vocabulary["[SEP]"]]


def main():
    with open(sys.argv[1], encoding="utf-8", newline="\n") as file:
        vocabulary = {line.rstrip("\n"): i for i, line in enumerate(file)}
    with open(sys.argv[2], "rb") as texts, open(sys.argv[3], "wb") as out:
        while length := texts.read(4):
            text = texts.read(struct.unpack("<I", length)[0]).decode("utf-8", errors="replace")
            ids = encode(text, vocabulary)
            out.write(struct.pack(f"<I{len(ids)}i", 4 * len(ids), *ids))


main()
