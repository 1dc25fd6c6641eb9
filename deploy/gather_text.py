#!/usr/bin/env python3
"""Gathers a text corpus from the files that Debian packages install.

Writes JSON lines {"id", "text", "domain", "source"}: C and C++ headers, Python and Perl sources,
manual pages, changelogs, licenses, documentation, package descriptions, CMake modules and shell
completions. Documents of all domains are mixed. The same machine and options give the same file.
"""

import argparse
import collections
import contextlib
import fnmatch
import glob
import gzip
import hashlib
import json
import os
import re
import sys

# (domain, folders as a list of alternatives, patterns of file names without .gz)
RULES = [
    ("c_headers", ["usr/include", "usr/lib/gcc"], "*.h *.hh *.hpp *.hxx"),
    ("changelogs", ["usr/share/doc"], "changelog*"),
    ("cmake", ["usr/lib/*/cmake", "usr/share/cmake*"], "*.cmake"),
    ("licenses", ["usr/share/common-licenses"], "*"),
    ("licenses", ["usr/share/doc"], "copyright"),
    ("documentation", ["usr/share/cmake*/Help", "usr/share/doc"],
     "*.txt *.md *.rst README* NEWS* FAQ* TODO*"),
    ("manual_pages", ["usr/share/man/man*"], "*.[1-8]*"),
    ("package_descriptions", ["var/lib/dpkg"], "status"),
    ("perl", ["usr/lib/*/perl*", "usr/share/perl*"], "*.pm"),
    ("perl_docs", ["usr/lib/*/perl*", "usr/share/perl*"], "*.pod"),
    ("python", ["usr/lib/python3*", "usr/share/python3"], "*.py"),
    ("shell", ["usr/share/bash-completion/completions"], "*"),
]
DOMAINS = sorted({domain for domain, _, _ in RULES} | {"cpp_headers"})
# Macros of man and mdoc that begin a paragraph, and those whose arguments are text.
PARAGRAPHS = set("SH SS Sh Ss PP P LP Pp TP IP It".split())
TEXTS = set("SH SS Sh Ss IP It B I BI BR IB IR RB RI SB SM Nm Fl Ar Xr Op Nd Cm Pa Em Sy".split())
# Escapes of roff and their text, in the order of replacement.
ESCAPES = [(r"\\f(\[[^]\n]*\]|\(..|.)|\\s[-+]?\d+|\\[&|^/,:%]|\\\".*", ""), (r"\\\(bu", "*"),
           (r"\\\([aco]q", "'"), (r"\\-", "-"), (r"\\\(..|\\\[[^]\n]*\]|\\\*\(..|\\\*.", " "),
           (r"\\e", r"\\"), (r"\\ ", " ")]
MAX_FILE_BYTES = 16 << 20   # larger files are data
MAX_TEXT_BYTES = 64 << 10   # limit for one document, and for one file where there is enough text
MIN_TEXT_BYTES = 200
MAX_DOMAIN_SHARE, MIN_DOMAIN_SHARE = 0.30, 0.01


def key(text, seed):
    """A pseudo-random number of the text and the seed."""
    return hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(16, "big")).digest()


def is_utf8(name):
    """Whether the bytes of a file's name are UTF-8, as those of ids and sources must be."""
    return not any("\ud800" <= character <= "\udfff" for character in name)


def find_files(root):
    """Regular files below root as {path relative to root: domain}; the first rule wins.

    Files whose path is not UTF-8 are left out.
    """
    found = {}
    for domain, folders, patterns in RULES:
        for top in (top for f in folders for top in glob.glob(os.path.join(glob.escape(root), f))):
            for directory, _, names in os.walk(top):
                for name in names:
                    path = os.path.join(directory, name)
                    if (any(fnmatch.fnmatchcase(name.removesuffix(".gz"), p)
                            for p in patterns.split()) and is_utf8(os.path.relpath(path, root))
                            and os.path.isfile(path) and not os.path.islink(path)):
                        found.setdefault(os.path.relpath(path, root), domain)
    return found


def manual_page_text(roff):
    """An approximate text of a manual page: macros become headings and words."""
    def text_of(macro):
        text = macro[2].replace('"', "") + "\n" if macro[1] in TEXTS else ""
        return "\n" + text if macro[1] in PARAGRAPHS else text
    # Definitions and ignored blocks end at a line with two periods.
    text = re.sub(r"(?ms)^\.(de|ig).*?(^\.\.[^\n]*\n?|\Z)", "", roff)
    if re.search(r"(?m)^[.'][ \t]*so\b", text):
        return ""
    text = re.sub(r"(?m)^[.'][ \t]*(\w*)[ \t]*(.*)\n?", text_of, text)
    for escape, replacement in ESCAPES:
        text = re.sub(escape, replacement, text)
    text = "\n".join(line.strip() for line in text.split("\n"))
    return re.sub(r"\n{3,}", "\n\n", text).strip() + "\n"


def package_descriptions(status):
    """One text for each package of dpkg's status file."""
    for stanza in status.split("\n\n"):
        name = re.search(r"^Package: (.*)", stanza, re.M)
        text = re.search(r"^Description: (.*(?:\n .*)*)", stanza, re.M)
        if name and text:
            yield f"{name[1]} - " + re.sub(r"^ (\.$)?", "", text[1], flags=re.M) + "\n"


def read_texts(path, domain):
    """The domain and the texts of a file; no text when it is not UTF-8 or cannot be read."""
    try:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as file:
            data = file.read(MAX_FILE_BYTES + 1)
        text = data.decode("utf-8")
    except (OSError, EOFError, ValueError):
        return domain, []
    if len(data) > MAX_FILE_BYTES or "\0" in text:
        return domain, []
    if domain == "package_descriptions":
        return domain, package_descriptions(text)
    if domain == "c_headers" and re.search(r"\n(namespace|class) |template ?<", text):
        domain = "cpp_headers"
    return domain, [manual_page_text(text) if domain == "manual_pages" else text]


def split(text, limit):
    """Parts of at most `limit` bytes, cut at line ends; longer lines are cut anywhere."""
    if limit == 0 or len(text.encode()) <= limit:
        return [text]
    parts, size = [[]], 0
    for line in text.splitlines(keepends=True):
        # UTF-8 has at most four bytes for a character.
        step = len(line) if len(line.encode()) <= limit else limit // 4
        for piece in (line[i:i + step] for i in range(0, len(line), step)):
            size += len(piece.encode())
            if size > limit:
                parts.append([])
                size = len(piece.encode())
            parts[-1].append(piece)
    return ["".join(part) for part in parts if part]


def fair_level(sizes, target):
    """The greatest level such that sizes cut to it add up to at most target."""
    sizes = sorted(sizes)
    for i, size in enumerate(sizes):
        if size > target // (len(sizes) - i):
            return target // (len(sizes) - i)
        target -= size
    return sizes[-1] if sizes else 0


def gather(options, whole_files):
    """Returns a list of (path, domain, text), domains filled evenly up to options.bytes.

    A long file gives its first MAX_TEXT_BYTES, or with whole_files as many texts as it fills.
    """
    files, wanted = find_files(options.root), set(options.domains or DOMAINS)
    # Domains named by the user are kept whole.
    limit = int(options.bytes * (1 if options.domains else MAX_DOMAIN_SHARE))
    least = 0 if options.domains else options.bytes * MIN_DOMAIN_SHARE
    taken, used, seen = [], collections.Counter(), set()
    for path in sorted(files, key=lambda p: (key(p, options.seed), p)):
        # The domain of a header is known only after reading it.
        possible = {"c_headers", "cpp_headers"} if files[path] == "c_headers" else {files[path]}
        if all(used[domain] >= limit for domain in possible & wanted):
            continue
        domain, texts = read_texts(os.path.join(options.root, path), files[path])
        if domain not in wanted or used[domain] >= limit:
            continue
        most = None if whole_files else 1
        for text in (part for text in texts for part in split(text, MAX_TEXT_BYTES)[:most]):
            for part in split(text, options.split_bytes):
                digest = key(part, 0)
                if len(text.encode()) >= MIN_TEXT_BYTES and part.strip() and digest not in seen:
                    seen.add(digest)
                    taken.append((path, domain, part))
                    used[domain] += len(part.encode())
    sizes = {domain: size for domain, size in used.items() if size >= least}
    level = min(limit, fair_level(sizes.values(), options.bytes))
    # Cuts every domain to the level, dropping what was gathered last.
    kept, used, full = [], collections.Counter(), set()
    for path, domain, text in taken:
        size = len(text.encode())
        if domain not in sizes or path in full or used[domain] + size > level:
            full.add(path)
            continue
        used[domain] += size
        kept.append((path, domain, text))
    return kept


def size(text):
    """Parses "5MB", "24MiB" or "1000"."""
    match = re.fullmatch(r"([1-9]\d*)(?:([KMG])(i?)B|B?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f'got "{text}", expected a size such as 5MB or 24MiB')
    return int(match[1]) * (1024 if match[3] else 1000) ** " KMG".index(match[2] or " ")


def write(path, documents, seed):
    """Writes JSON lines in a seeded order; gathering has small domains last."""
    parts, numbers = collections.Counter(path for path, _, _ in documents), collections.Counter()
    documents = sorted(documents, key=lambda d: (key(d[0], seed + 1), d[0]))
    try:
        with open(path + ".part", "w", encoding="utf-8", newline="\n") as out:
            for source, domain, text in documents:
                name = source if parts[source] == 1 else f"{source}#{numbers[source]}"
                numbers[source] += 1
                out.write(json.dumps({"id": name, "text": text, "domain": domain,
                                      "source": "/" + source}, ensure_ascii=False) + "\n")
        os.rename(path + ".part", path)
    except BaseException:
        # A part of the text would fill the disk.
        with contextlib.suppress(OSError):
            os.remove(path + ".part")
        raise


def parse_options():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Examples:\n  gather_text.py text.jsonl\n"
        "  gather_text.py code.jsonl --domains python,c_headers --bytes 5MB\n\n"
        "Domains: " + ", ".join(DOMAINS))
    add = parser.add_argument
    add("output", help="file to write; must not exist")
    add("--bytes", type=size, default=24 << 20, help="amount of text to gather (default: 24MiB)")
    add("--domains", type=lambda names: names.split(","), default=[],
        help="gather only these domains, separated by commas (default: all)")
    add("--split-bytes", type=int, default=0,
        help="cut longer documents at line ends (default: 0, no cutting)")
    add("--seed", type=int, default=0, help="seed of the choice of files (default: 0)")
    add("--min-bytes", type=size, default=1, help="fail with less text than this (default: 1)")
    add("--root", default="/", help="root directory of the installed system (default: /)")
    options = parser.parse_args()
    if unknown := sorted(set(options.domains) - set(DOMAINS)):
        parser.error(f'--domains: got "{unknown[0]}", expected one of {", ".join(DOMAINS)}')
    if options.split_bytes < 0 or 0 < options.split_bytes < 64:
        parser.error(f"--split-bytes: got {options.split_bytes}, expected 0 or at least 64")
    if not 0 <= options.seed < 1 << 64:
        parser.error(f"--seed: got {options.seed}, expected 0 to 2^64 - 1")
    if os.path.exists(options.output):
        parser.error(f"{options.output} exists; remove it or name another file")
    if not os.path.isdir(os.path.dirname(options.output) or "."):
        parser.error(f"{options.output}: its directory does not exist; create it first")
    return options


def main():
    options = parse_options()
    # Long files make a domain less varied, so they are kept whole only where text is short.
    for whole_files in (False, True):
        documents, sizes = gather(options, whole_files), collections.Counter()
        for _, domain, text in documents:
            sizes[domain] += len(text.encode())
        enough = sum(sizes.values()) >= min(options.min_bytes, options.bytes)
        if enough:
            break
    if not enough:
        sys.exit(f"gather_text.py: too little text below {options.root}: got {dict(sizes)}, "
                 f"expected {options.min_bytes} bytes; install packages with documentation and "
                 "sources, such as manpages-dev, g++ and perl-doc")
    try:
        write(options.output, documents, options.seed)
    except OSError as error:
        sys.exit(f"gather_text.py: cannot write {options.output}: {error.strerror}")
    print(f"{len(documents):,} documents, {sum(sizes.values()) / 1e6:.1f} MB of this machine's "
          f"text in {len(sizes)} domains")


if __name__ == "__main__":
    main()
