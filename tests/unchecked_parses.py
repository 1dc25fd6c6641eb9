#!/usr/bin/env python3
"""Checks that no source file ignores whether parsing succeeded.

A parser whose result is ignored turns damaged data into default settings. Calls of parsers must not
be statements of their own or be cast to void, and JSON that is parsed without exceptions must be
tested. Run with --self-test to see that violations are found.
"""
import pathlib
import re
import sys

FOLDERS = ("base formats proto rpc retrieval pipeline conversion model runs trainer evaluation inference report "
           "control server client reproduce cli").split()

PARSER = re.compile(
    r"\b(ParseFrom\w+|ParsePartialFrom\w+|MergeFromString|MergePartialFrom\w+|MergeFromCodedStream|"
    r"ParsePartial\w+|JsonStringToMessage|BinaryToJson\w+|TextFormat::(?:Parse|Merge)\w*|"
    r"SimpleAto\w+|SimpleHexAtoi|from_chars|sscanf|\w+_Parse)\s*\(")
QUIET_JSON = re.compile(r"(?:\b(\w+)\s*=\s*)(?:\w+::)*\w*[jJ]son::parse\s*\(")
TESTED = r"\b{0}(\.|->)is_(discarded|object|array)\b|\bIs\w*\({0}\b"

LITERAL = re.compile(r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'',
                     re.DOTALL)


def without_literals(text):
    """Blanks comments and literals; keeps the line numbers."""
    return LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def before_object(code, at):
    """Returns what precedes the expression whose member or qualified name begins at `at`."""
    while True:
        left = code[:at].rstrip()
        if left.endswith("&&"):
            return left
        step = re.search(r"(\.|->|::|&|\*)$", left)
        if step is None:
            return left
        at = step.start()
        left = code[:at].rstrip()
        while left and left[-1] in ")]":  # arguments of a call, or an index
            depth = 0
            for i in range(len(left) - 1, -1, -1):
                depth += (left[i] in ")]") - (left[i] in "([")
                if depth == 0:
                    break
            left = left[:i].rstrip()
        name = re.search(r"\w+$", left)
        at = name.start() if name else len(left)


def closes_condition(left):
    """Returns whether the text ends with the parenthesis of an if, for, while or cast to void."""
    depth = 0
    for i in range(len(left) - 1, -1, -1):
        depth += (left[i] == ")") - (left[i] == "(")
        if depth == 0:
            return bool(re.search(r"\b(if|for|while|constexpr)\s*$", left[:i])
                        or re.fullmatch(r"\(\s*void\s*\)", left[i:]))
    return False


def is_ignored(code, match):
    left = before_object(code, match.start())
    if not left or left[-1] in ";{}":
        return True
    if left[-1] == ")":
        return closes_condition(left)
    return bool(re.search(r"\b(else|do)$", left))


def violations(text):
    """Yields (line number, reason)."""
    code = without_literals(text)
    for match in PARSER.finditer(code):
        if is_ignored(code, match):
            yield code.count("\n", 0, match.start()) + 1, f"ignores the result of {match.group(1)}"
    for match in QUIET_JSON.finditer(code):
        statement = code[match.start():code.index(";", match.start())]
        if not re.search(r"\bnullptr\s*,\s*false\b", statement):
            continue
        rest = code[match.end():match.end() + 800]
        if not re.search(TESTED.format(re.escape(match.group(1))), rest):
            yield (code.count("\n", 0, match.start()) + 1,
                   f"does not test {match.group(1)}, which may be discarded JSON")


def check_tree(root):
    found = 0
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix not in (".h", ".cc"):
                continue
            for number, reason in violations(path.read_text(encoding="utf-8")):
                print(f"{path.relative_to(root).as_posix()}:{number}: {reason}")
                found += 1
    return found


def self_test():
    bad = [
        "void F() { job.ParseFromString(row.getColumn(4).getString()); }",
        "void F() {\n  job.mutable_spec()->ParseFromString(bytes);\n}",
        "void F() { events.emplace_back().ParseFromString(event); }",
        "void F() { if (!text.empty()) job.ParseFromString(text); }",
        "void F() { if (a) { b(); } else job->ParseFromString(text); }",
        "void F() { (void)job.ParseFromString(text); }",
        "void F() { google::protobuf::TextFormat::ParseFromString(text, &job); }",
        "void F() { for (auto& b : blobs) jobs[i].ParseFromArray(b.data(), n); }",
        "void F() { util::JsonStringToMessage(text, &m); }",
        "void F() { std::from_chars(text.data(), end, number); }",
        "void F() { v1::JobState_Parse(text, &state); }",
        "void F() { const json j = json::parse(t, nullptr, /*allow_exceptions=*/false);\n"
        "  use(j[1]); }",
    ]
    good = [
        "bool F() { return job.ParseFromString(text); }",
        "void F() { if (!job.mutable_spec()->ParseFromString(text)) Fail(); }",
        "void F() { const bool ok = absl::SimpleAtoi(text, &n); Use(ok, n); }",
        "void F() { const auto [end, error] = std::from_chars(a, b, n); }",
        "bool F() { return a.ok() && util::JsonStringToMessage(text, &m).ok(); }",
        "void F() { if (auto b = Read(); b.ok() && job.ParseFromString(*b)) Use(job); }",
        "// job.ParseFromString(text);\nconst char* s = \"x.ParseFromString(y);\";",
        "absl::Status ParseFromText(std::string_view text);",
        "void F() { const json j = json::parse(t, nullptr, /*allow_exceptions=*/false);\n"
        "  if (!j.is_object()) return; }",
        "void F() { CHECK(files.ParseFromArray(data, size)); }",
    ]
    missed = [case for case in bad if not list(violations(case))]
    false_alarms = [case for case in good if list(violations(case))]
    for case in missed + false_alarms:
        print("self-test failed:", case)
    return len(missed) + len(false_alarms)


if __name__ == "__main__":
    if sys.argv[1:] == ["--self-test"]:
        sys.exit(1 if self_test() else 0)
    sys.exit(1 if check_tree(pathlib.Path(__file__).resolve().parent.parent) else 0)
