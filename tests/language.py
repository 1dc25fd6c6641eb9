#!/usr/bin/env python3
"""Checks the language of comments, messages, help texts, docs and scripts.

Reports a comment that begins with "Of", words that this project avoids because the field
uses plainer ones (WORDS), and British spelling (BRITISH). C++ is checked in comments and
string literals, .proto and .textproto files in comments, Python in comments and strings,
Markdown, shell, CMake and YAML files as a whole. The spelling of file names and of C++
identifiers is checked too. Prints `file:line: reason` for each place and exits with 1 if
there is any. Run with --self-test to see that violations are found, with paths to check
only what is below them.
"""
import functools
import io
import pathlib
import re
import sys
import tokenize

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("base formats proto rpc retrieval pipeline conversion model runs trainer evaluation inference report "
           "control server client reproduce cli cmake deploy docs tests").split()

# pattern -> what to write instead
WORDS = {
    r"\btold\b": 'say what happens: "reports", "is passed to", "receives"',
    r"\bwhoever\b": "name the role: the caller, the client, the leader rank",
    r"\b(nobody|somebody)\b": "name the role: the caller, the client, the leader rank",
    r"\bso\s+many\b": '"at most N", "N" or "that number of"',
    r"(?<!\bthere\s)\bis\s+no\s+(?!(longer|more|less|fewer|larger|smaller|greater|better|worse|"
    r"earlier|later|faster|slower|different)\b)[a-z]+": '"is not a ..."',
    r"\banew\b": '"again"',
}

OUR = "neighbour colour behaviour favour flavour honour humour labour rumour harbour endeavour vapour"
ISE = ("utilis normalis optimis initialis serialis specialis generalis organis recognis realis minimis "
       "maximis summaris characteris parallelis synchronis standardis randomis tokenis vectoris factoris "
       "quantis regularis symmetris categoris emphasis authoris capitalis customis digitis discretis "
       "equalis finalis formalis harmonis idealis itemis linearis localis memoris modernis neutralis "
       "penalis prioritis rationalis stabilis visualis materialis criticis familiaris anonymis virtualis "
       "canonicalis orthogonalis marginalis modularis amortis analys paralys crystallis apologis "
       "centralis decentralis monopolis mobilis symbolis sanitis containeris")
ELL = "model label signal level channel marshal total equal counsel tunnel travel fuel pencil"
SPELLING = re.compile(
    r"(?P<our>" + "|".join(OUR.split()) + r")"
    r"|(?P<ise>(" + "|".join(ISE.split()) + r")(e|ed|er|ers|ing|ation|ations|ational|able)(?![a-z]))"
    r"|(?P<ell>(?<![a-z])(un|re|mis)?(" + "|".join(ELL.split()) + r")l(ed|ing|er|ers)(?![a-z]))"
    r"|(?P<re>(?<![a-z])(centre|(kilo|centi|milli)?metre|litre|fibre|calibre|theatre|spectre)[ds]?(?![a-z])"
    r"|(?<![a-z])centring(?![a-z]))"
    r"|(?P<other>artefact|catalogue|(?<![a-z])licence|(?<![a-z])(defence|offence|pretence)|judgement"
    r"|(?<![a-z])(programmes?|grey|whilst|amongst|learnt|spelt|ageing|fulfils?|enrols?|skilful|practised?"
    r"|instalment|manoeuvr\w*|sceptic\w*|cheques?|focuss\w+|biass\w+|targett\w+|budgett\w+|analogues?)"
    r"(?![a-z]))", re.I)
WORD = re.compile(r"[A-Za-z]+")
WORD_PATTERNS = {re.compile(p, re.I): hint for p, hint in WORDS.items()}

# (path pattern, the found words, why they stay)
EXCEPTIONS = (
    (r"^tests/language\.py$", r".*", "the list of what is looked for"),
    (r"^evaluation/tasks/(amazon|fever)\.textproto$|^docs/tasks\.md$|^tests/evaluation/tasks/", r"labelled",
     "names of published data sets and their files"),
)

C_TOKEN = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<tag>[^\s()\\"]{0,16})\(.*?\)(?P=tag)"'
    r'|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)+\'', re.S)
NUMBER_WITH_QUOTES = re.compile(r"(?<=[0-9a-fA-F])'(?=[0-9a-fA-F])")


class Text:
    """Prose of a file: `kind` is "comment" or "text"; `lines` holds (line number, content)."""

    def __init__(self, kind, number, content):
        self.kind = kind
        self.lines = [(number + i, line) for i, line in enumerate(content.split("\n"))]

    def append(self, number, content):
        self.lines.append((number, content))

    def joined(self):
        return "\n".join(line for _, line in self.lines)

    def line_at(self, offset):
        return self.lines[self.joined().count("\n", 0, offset)][0]


@functools.lru_cache(maxsize=None)
def british(word):
    """Returns the British spelling within a word or identifier, or None."""
    found = SPELLING.search(word)
    return found and found.group()


def c_texts(source, with_strings):
    """Returns the comments of C++-like source, and its string literals on request.

    Comment lines that follow one another are one text, as are adjacent string literals,
    so that a phrase is found across line breaks.
    """
    source = NUMBER_WITH_QUOTES.sub("_", source)
    texts, end, last = [], 0, None
    for match in C_TOKEN.finditer(source):
        token = match.group()
        number = source.count("\n", 0, match.start()) + 1
        between = source[end:match.start()]
        if token.startswith("//"):
            content = token[2:].strip(" /")
            alone = not source[source.rfind("\n", 0, match.start()) + 1:match.start()].strip()
            if last == "//" and alone and not between.strip() and between.count("\n") == 1:
                texts[-1].append(number, content)
            else:
                texts.append(Text("comment", number, content))
            last = "//"
        elif token.startswith("/*"):
            texts.append(Text("comment", number, re.sub(r"(?m)^\s*\*+", "", token[2:-2]).strip()))
            last = "/*"
        elif token.startswith("'"):
            last = "'"
        elif with_strings:
            line_start = source.rfind("\n", 0, match.start()) + 1
            if not re.match(r"\s*#\s*include", source[line_start:match.start()]):
                content = token[token.index('"') + 1:-1].replace(r"\n", "  ")
                if last == '"' and not between.strip():
                    texts[-1].append(number, content)
                else:
                    texts.append(Text("text", number, content))
            last = '"'
        end = match.end()
    return texts


def python_texts(source):
    texts = []
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            content = token.string.lstrip("#! ")
            alone = not token.line[:token.start[1]].strip()
            if alone and texts and texts[-1].kind == "comment" and texts[-1].lines[-1][0] == token.start[0] - 1:
                texts[-1].append(token.start[0], content)
            else:
                texts.append(Text("comment", token.start[0], content))
        elif token.type == tokenize.STRING:
            texts.append(Text("text", token.start[0], token.string.strip("rbfRBF\"'")))
    return texts


def hash_texts(source):
    """Returns whole lines as text, and the blocks of comments that begin with '#'."""
    texts, block = [Text("text", 1, source)], None
    for number, line in enumerate(source.split("\n"), 1):
        comment = re.match(r"\s*#+\s*(.*)", line)
        trailing = None if comment else re.search(r"\s#\s(.*)", line)
        if comment and block is not None:
            block = number
        elif comment or trailing:
            # Words are found in the text above, so only the beginning matters here.
            texts.append(Text("comment", number, (comment or trailing).group(1)[:3]))
            block = number if comment else None
        else:
            block = None
    return texts


def identifiers(source):
    """Returns C++ source without its comments and literals, line breaks kept."""
    source = NUMBER_WITH_QUOTES.sub("_", source)
    return Text("text", 1, C_TOKEN.sub(lambda m: "\n" * m.group().count("\n"), source))


def texts_of(path, source):
    name, suffix = path.rpartition("/")[2], path.rpartition(".")[2]
    if suffix in ("h", "cc"):
        return c_texts(source, with_strings=True)
    if suffix == "proto":
        return c_texts(source, with_strings=False)
    if suffix == "textproto":
        return [Text("comment", n, line.lstrip("# ")) for n, line in enumerate(source.split("\n"), 1)
                if line.startswith("#")]
    if suffix == "py":
        return python_texts(source)
    if suffix == "md":
        return [Text("text", 1, source)]
    if suffix in ("sh", "cmake", "yml", "yaml", "service") or name in ("CMakeLists.txt", "Dockerfile"):
        return hash_texts(source)
    return []


def excepted(path, found):
    return any(re.search(where, path) and re.fullmatch(words, found, re.I) for where, words, _ in EXCEPTIONS)


def violations(path, source):
    """Yields (line number, reason) for one file given by its path from the root."""
    def spelling(text):
        for match in WORD.finditer(text.joined()):
            found = british(match.group())
            if found and not excepted(path, found):
                yield text.line_at(match.start()), f'British spelling "{found}"'

    yield from ((0, reason + " in the file name") for _, reason in spelling(Text("text", 0, path)))
    texts = texts_of(path, source)
    for text in texts:
        if text.kind == "comment" and re.match(r"of\b", text.joined(), re.I):
            yield text.lines[0][0], 'comment begins with "Of": name the thing that it describes'
        for pattern, hint in WORD_PATTERNS.items():
            for match in pattern.finditer(text.joined()):
                if not excepted(path, match.group()):
                    found = " ".join(match.group().split())
                    yield text.line_at(match.start()), f'"{found}": write {hint}'
        yield from spelling(text)
    if path.endswith((".h", ".cc")):
        yield from spelling(identifiers(source))


def files(under):
    roots = [ROOT / p for p in under] or [ROOT / f for f in FOLDERS] + sorted(
        p for p in ROOT.iterdir() if p.is_file() and p.suffix in (".md", ".yml", ".txt"))
    for root in roots:
        for path in [root] if root.is_file() else sorted(root.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def check_tree(under):
    found = 0
    for path in files(under):
        name = path.relative_to(ROOT).as_posix()
        try:
            source = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:  # images, damaged test data
            continue
        for number, reason in sorted(set(violations(name, source))):
            print(f"{name}:{number}: {reason}")
            found += 1
    return found


def self_test():
    bad = [
        ("cli/a.cc", "// Of the client's side.\nint x;"),
        ("cli/a.cc", "int x;  // Of rank 0."),
        ("cli/a.cc", 'Print("the trainer was told");'),
        ("cli/a.cc", 'Print("this is no "\n      "number");'),
        ("cli/a.cc", "// The result is\n// no number.\n"),
        ("cli/a.cc", 'R"(at most so many)"'),
        ("cli/a.cc", "/* starts anew */"),
        ("cli/a.cc", "int num_neighbours = 1'000'000;"),
        ("cli/utilisation.cc", ""),
        ("proto/braid/v1/a.proto", "// Normalised vectors.\n"),
        ("docs/a.md", "nobody waits, whoever\nlooks"),
        ("deploy/a.sh", "x=1  # Of the packages\n"),
        ("deploy/a.sh", 'echo "behaviour"\n'),
        ("cmake/a.cmake", "# Of the compiler\n"),
        ("tests/a.py", "# Of the check\n"),
        ("tests/a.py", 'print("labelled")\n'),
    ]
    good = [
        ("cli/a.cc", "// Kind of the run.\n// Of two runs the newer one wins.\n"),
        ("cli/a.cc", "// There is no result, which is no longer an error and is no more than 5.\n"),
        ("cli/a.cc", 'Print("neighbor", kCancelled);  // four hours, a realistic emphasis, analyses'),
        ("cli/a.cc", "char c = '\"';  // a soldier\n"),
        ("proto/braid/v1/a.proto", 'option x = "told";\n'),
        ("docs/a.md", "our source of color is modeled; a table of contents\n"),
    ]
    missed = [case for case in bad if not list(violations(*case))]
    false_alarms = [case for case in good if list(violations(*case))]
    if [n for n, _ in violations("cli/a.cc", "int a;\n// The value is\n// told.\n")] != [3]:
        missed.append("line number")
    for case in missed + false_alarms:
        print("self-test failed:", case)
    return len(missed) + len(false_alarms)


if __name__ == "__main__":
    sys.exit(1 if (self_test() if sys.argv[1:] == ["--self-test"] else check_tree(sys.argv[1:])) else 0)
