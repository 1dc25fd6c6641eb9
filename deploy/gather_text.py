#!/usr/bin/env python3
"""Gathers a text corpus from the files that Debian packages install.

Writes JSON lines {"id", "text", "domain", "source"}: C and C++ headers, Python and Perl sources,
manual pages, changelogs, licenses, documentation, package descriptions, CMake modules and shell
completions. Documents of all domains are mixed. The same machine and options give the same file.
"""

import argparse
import collections
import fnmatch
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
# Macros of man and mdoc whose arguments are text.
TEXT_MACROS = set("SH SS Sh Ss IP It B I BI BR IB IR RB RI SB SM Nm Fl Ar Xr Op Nd Cm Pa Em Sy"
                  .split())
MAX_FILE_BYTES = 16 << 20   # larger files are data
MAX_TEXT_BYTES = 64 << 10   # limit for one file
MIN_TEXT_BYTES = 200
MAX_DOMAIN_SHARE, MIN_DOMAIN_SHARE = 0.30, 0.01


def key(text, seed):
    """A pseudo-random number of the text and the seed."""
    return hashlib.blake2b(text.encode(), digest_size=8, salt=seed.to_bytes(16, "big")).digest()


def find_files(root):
    """Regular files below root as {path relative to root: domain}; the first rule wins."""
    found = {}
    for domain, folders, patterns in RULES:
        for folder in folders:
            for top in expand(root, folder.split("/")):
                for directory, _, names in os.walk(top):
                    for name in names:
                        path = os.path.join(directory, name)
                        plain = name[:-3] if name.endswith(".gz") else name
                        if any(fnmatch.fnmatchcase(plain, p) for p in patterns.split()):
                            if os.path.isfile(path) and not os.path.islink(path):
                                found.setdefault(os.path.relpath(path, root), domain)
    return found


def expand(base, parts):
    """Directories below base whose names match the patterns in `parts`."""
    if not parts:
        return [base]
    try:
        names = sorted(os.listdir(base))
    except OSError:
        return []
    tops = [expand(os.path.join(base, n), parts[1:])
            for n in names if fnmatch.fnmatchcase(n, parts[0])]
    return [top for group in tops for top in group]


def manual_page_text(roff):
    """A light approximation of the text of a manual page: macros become headings and words."""
    lines, skipping = [], False
    for line in roff.split("\n"):
        if line.startswith((".de", ".ig")):
            skipping = True
        if skipping:
            skipping = not line.startswith("..")
            continue
        macro = re.match(r"[.'][ \t]*(\w*)[ \t]*(.*)", line)
        if macro:
            name, rest = macro.groups()
            if name == "so":
                return ""
            if name in ("SH", "SS", "Sh", "Ss", "PP", "P", "LP", "Pp", "TP", "IP", "It"):
                lines.append("")
            if name not in TEXT_MACROS:
                continue
            line = rest.replace('"', "")
        line = re.sub(r"\\f(\[[^]]*\]|\(..|.)|\\s[-+]?\d+|\\[&|^/,:%]|\\\".*", "", line)
        line = re.sub(r"\\\(aq|\\\(cq|\\\(oq", "'", re.sub(r"\\\(bu", "*", line))
        lines.append(re.sub(r"\\\(..|\\\[[^]]*\]|\\\*\(..|\\\*.", " ", line.replace("\\-", "-"))
                     .replace("\\e", "\\").replace("\\ ", " ").strip())
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)).strip() + "\n"


def package_descriptions(status):
    """One text for each package of dpkg's status file."""
    for stanza in status.split("\n\n"):
        name = re.search(r"^Package: (.*)", stanza, re.M)
        text = re.search(r"^Description: (.*(?:\n .*)*)", stanza, re.M)
        if name and text:
            body = re.sub(r"^ (\.$)?", "", text.group(1), flags=re.M)
            yield f"{name.group(1)} - {body}\n"


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
    if domain == "c_headers" and re.search(r"\n(namespace|class) |template ?<", text):
        domain = "cpp_headers"
    texts = [text]
    if domain == "manual_pages":
        texts = [manual_page_text(text)]
    elif domain == "package_descriptions":
        texts = list(package_descriptions(text))
    return domain, [cut(one, MAX_TEXT_BYTES) for one in texts]


def cut(text, limit):
    """At most `limit` bytes of text, up to the end of a line."""
    data = text.encode()
    return text if len(data) <= limit else data[:data.rfind(b"\n", 0, limit) + 1].decode()


def split(text, limit):
    """Parts of at most `limit` bytes, cut at line ends; longer lines are cut anywhere."""
    if limit == 0 or len(text.encode()) <= limit:
        return [text]
    parts, part, size = [], [], 0
    for line in text.splitlines(keepends=True):
        pieces = [line]
        if len(line.encode()) > limit:  # UTF-8 has at most four bytes for a character
            pieces = [line[i:i + limit // 4] for i in range(0, len(line), limit // 4)]
        for piece in pieces:
            if part and size + len(piece.encode()) > limit:
                parts.append("".join(part))
                part, size = [], 0
            part.append(piece)
            size += len(piece.encode())
    return parts + ["".join(part)]


def fair_level(sizes, target):
    """The greatest level such that sizes cut to it add up to at most target."""
    sizes = sorted(sizes)
    for i, size in enumerate(sizes):
        if size > target // (len(sizes) - i):
            return target // (len(sizes) - i)
        target -= size
    return sizes[-1] if sizes else 0


def gather(options):
    """Returns a list of (path, domain, documents), domains filled evenly up to options.bytes."""
    files = find_files(options.root)
    # Domains named by the user are kept whole.
    limit = int(options.bytes * (1 if options.domains else MAX_DOMAIN_SHARE))
    least = 0 if options.domains else options.bytes * MIN_DOMAIN_SHARE
    wanted = options.domains or DOMAINS
    taken, used, seen = [], collections.Counter(), set()
    for path in sorted(files, key=lambda p: (key(p, options.seed), p)):
        # The domain of a header is known only after reading it.
        domains = ["c_headers", "cpp_headers"] if files[path] == "c_headers" else [files[path]]
        if not any(domain in wanted and used[domain] < limit for domain in domains):
            continue
        domain, texts = read_texts(os.path.join(options.root, path), files[path])
        if domain not in wanted or used[domain] >= limit:
            continue
        documents = []
        for text in texts:
            if len(text.encode()) < MIN_TEXT_BYTES:
                continue
            for part in split(text, options.split_bytes):
                digest = key(part, 0)
                if part.strip() and digest not in seen:
                    seen.add(digest)
                    documents.append(part)
                    used[domain] += len(part.encode())
        taken.append((path, domain, documents))
    sizes = {d: n for d, n in used.items() if n >= least}
    level = min(limit, fair_level(sizes.values(), options.bytes))
    return cut_domains([t for t in taken if t[1] in sizes], level)


def cut_domains(taken, level):
    """Cuts every domain to `level` bytes, dropping what was gathered last."""
    kept, used = [], collections.Counter()
    for path, domain, documents in taken:
        fitting = []
        for text in documents:
            size = len(text.encode())
            if used[domain] + size > level:
                break
            used[domain] += size
            fitting.append(text)
        if fitting:
            kept.append((path, domain, fitting))
    return kept


def size(text):
    """Parses "5MB", "24MiB" or "1000"."""
    match = re.fullmatch(r"(\d+)(KB|MB|GB|KiB|MiB|GiB|B|)", text)
    if not match or int(match.group(1)) < 1:
        raise argparse.ArgumentTypeError(f'got "{text}", expected a size such as 5MB or 24MiB')
    unit = match.group(2)
    power = "BKMG".index(unit[0]) if unit else 0
    return int(match.group(1)) * (1024 if "i" in unit else 1000) ** power


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="Examples:\n  gather_text.py text.jsonl\n"
        "  gather_text.py code.jsonl --domains python,c_headers --bytes 5MB\n\n"
        "Domains: " + ", ".join(DOMAINS))
    parser.add_argument("output", help="file to write; must not exist")
    parser.add_argument("--bytes", type=size, default=24 << 20,
                        help="amount of text to gather (default: 24MiB)")
    parser.add_argument("--domains", type=lambda names: names.split(","), default=[],
                        help="gather only these domains, separated by commas (default: all)")
    parser.add_argument("--split-bytes", type=int, default=0,
                        help="cut longer documents at line ends (default: 0, no cutting)")
    parser.add_argument("--seed", type=int, default=0,
                        help="seed of the choice of files (default: 0)")
    parser.add_argument("--min-bytes", type=size, default=1,
                        help="fail with less text than this (default: 1)")
    parser.add_argument("--root", default="/",
                        help="root directory of the installed system (default: /)")
    options = parser.parse_args()
    unknown = sorted(set(options.domains) - set(DOMAINS))
    if unknown:
        parser.error(f'--domains: got "{unknown[0]}", expected one of {", ".join(DOMAINS)}')
    if options.split_bytes < 0 or 0 < options.split_bytes < 64:
        parser.error(f"--split-bytes: got {options.split_bytes}, expected 0 or at least 64")
    if os.path.exists(options.output):
        parser.error(f"{options.output} exists; remove it or name another file")
    taken = gather(options)
    documents, sizes = 0, collections.Counter()
    for _, domain, texts in taken:
        documents += len(texts)
        sizes[domain] += sum(len(text.encode()) for text in texts)
    if sum(sizes.values()) < min(options.min_bytes, options.bytes):
        sys.exit(f"gather_text.py: too little text below {options.root}: got {dict(sizes)}, "
                 f"expected {options.min_bytes} bytes; install packages with documentation and "
                 "sources, such as manpages-dev, libstdc++-12-dev and perl-doc")
    temporary = options.output + ".part"
    with open(temporary, "w", encoding="utf-8", newline="\n") as out:
        # Another order than that of gathering, which has the small domains last.
        for path, domain, texts in sorted(taken, key=lambda t: (key(t[0], options.seed + 1), t[0])):
            for i, text in enumerate(texts):
                name = path if len(texts) == 1 else f"{path}#{i}"
                record = {"id": name, "text": text, "domain": domain, "source": "/" + path}
                out.write(json.dumps(record, ensure_ascii=False) + "\n")
    os.rename(temporary, options.output)
    print(f"{documents:,} documents, {sum(sizes.values()) / 1e6:.1f} MB of this machine's text in "
          f"{len(sizes)} domains")


if __name__ == "__main__":
    main()
