"""Checks deploy/gather_text.py on a small tree of crafted files."""

import gzip
import json
import os
import subprocess
import sys
import tempfile

SCRIPT = os.path.join(os.path.dirname(__file__), "../../deploy/gather_text.py")


def write(root, path, text):
    full = os.path.join(root, path)
    os.makedirs(os.path.dirname(full), exist_ok=True)
    with (gzip.open if path.endswith(".gz") else open)(full, "wb") as file:
        file.write(text if isinstance(text, bytes) else text.encode())


def craft(root):
    for i in range(20):
        write(root, f"usr/include/a{i}.h", f"int function_{i}(void);\n" * 30)
        write(root, f"usr/lib/python3/module{i}.py", f"def function_{i}():\n    return {i}\n" * 20)
    write(root, "usr/include/b.h", "\nnamespace x {\nclass Y;\n}\n" * 40)
    write(root, "usr/include/binary.h", b"\xff\xfe" * 400)
    write(root, "usr/include/copy.h", "int function_0(void);\n" * 30)
    write(root, "usr/lib/python3/short.py", "x = 1\n")
    # In Latin-1, which is not UTF-8.
    write(root, os.fsdecode(b"usr/lib/python3/stra\xdfe.py"), "def street():\n    return 1\n" * 20)
    write(root, "usr/share/man/man1/tool.1.gz",
          '.TH TOOL 1\n.SH NAME\ntool \\- a \\fBbold\\fR tool\n.PP\n' + "Some text of the page.\n" * 20)
    write(root, "var/lib/dpkg/status",
          "Package: one\nStatus: x\nDescription: short\n" + " long line\n" * 60 + " .\n more\n\n")


def gather(root, *options):
    with tempfile.TemporaryDirectory() as folder:
        output = os.path.join(folder, "out.jsonl")
        run = subprocess.run([sys.executable, SCRIPT, output, "--root", root, *options],
                             capture_output=True, text=True)
        lines = open(output, encoding="utf-8").read() if os.path.exists(output) else ""
    return run, lines, [json.loads(line) for line in lines.splitlines()]


def main():
    with tempfile.TemporaryDirectory() as root:
        craft(root)
        run, first, records = gather(root, "--bytes", "40KB")
        assert run.returncode == 0, run.stderr
        domains = {record["domain"] for record in records}
        assert {"c_headers", "cpp_headers", "python", "manual_pages",
                "package_descriptions"} <= domains, domains
        ids = {record["id"]: record for record in records}
        assert not {"usr/include/binary.h", "usr/lib/python3/short.py"} & ids.keys()
        assert not [name for name in ids if "stra" in name]
        # Only one of two equal files is kept.
        assert len({"usr/include/copy.h", "usr/include/a0.h"} & ids.keys()) == 1
        page = ids["usr/share/man/man1/tool.1.gz"]["text"]
        assert "tool - a bold tool" in page and "\\f" not in page, page
        package = ids["var/lib/dpkg/status"]["text"]
        assert package.startswith("one - short\nlong line\n") and "\n\nmore\n" in package, package
        # The same options give the same bytes; another seed gives another order.
        assert gather(root, "--bytes", "40KB")[1] == first
        assert gather(root, "--bytes", "40KB", "--seed", "1")[1] != first
        # No document is longer than asked for, and the total is limited.
        _, _, parts = gather(root, "--bytes", "5KB", "--split-bytes", "100")
        assert all(len(record["text"].encode()) <= 100 for record in parts)
        assert 2000 < sum(len(record["text"].encode()) for record in parts) <= 5000
        _, _, python = gather(root, "--domains", "python")
        assert {record["domain"] for record in python} == {"python"}, python
        # A long file is cut, unless there is too little text without the rest of it.
        write(root, "usr/lib/python3/long.py", "".join(f"x{i} = {i}\n" for i in range(15000)))
        for least, expected in [("1", 1), ("150KB", 4)]:
            _, _, whole = gather(root, "--bytes", "1MB", "--min-bytes", least)
            long = [r for r in whole if r["source"] == "/usr/lib/python3/long.py"]
            assert len(long) == expected, len(long)
            assert all(len(record["text"]) <= 64 << 10 for record in long)
        for options, message in [(("--domains", "pyton"), "pyton"), (("--bytes", "x"), "5MB"),
                                 (("--min-bytes", "1GB"), "too little text"),
                                 (("--seed", "-1"), "--seed: got -1, expected 0 to")]:
            run = gather(root, *options)[0]
            assert run.returncode != 0 and message in run.stderr, run.stderr
        nowhere = os.path.join(root, "missing/out.jsonl")
        run = subprocess.run([sys.executable, SCRIPT, nowhere], capture_output=True, text=True)
        assert run.returncode == 2 and nowhere in run.stderr, run.stderr
        assert "Traceback" not in run.stderr, run.stderr
        # Nothing is left of a file that does not fit on the disk.
        full = os.path.join(root, "full.jsonl")
        os.symlink("/dev/full", full + ".part")
        run = subprocess.run([sys.executable, SCRIPT, full, "--root", root, "--bytes", "40KB"],
                             capture_output=True, text=True)
        assert run.returncode == 1 and "No space left on device" in run.stderr, run.stderr
        assert not os.path.lexists(full) and not os.path.lexists(full + ".part")
        helped = subprocess.run([sys.executable, SCRIPT, "--help"], capture_output=True, text=True)
        assert "Examples:" in helped.stdout


main()
