#!/usr/bin/env python3
"""Checks MPIJob manifests against mpijob_schema.json: 0 when all follow it, 2 and the reasons
when one does not, 77 without python3-jsonschema.

usage: mpijob_schema.py MANIFEST...
"""
import json
import pathlib
import sys

try:
    import jsonschema
except ImportError:
    sys.exit(77)


def main(paths):
    schema = json.loads((pathlib.Path(__file__).parent / "mpijob_schema.json").read_text())
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    problems = 0
    for path in paths:
        for error in validator.iter_errors(json.loads(pathlib.Path(path).read_text())):
            print(f"{path}: {'/'.join(map(str, error.absolute_path))}: {error.message[:200]}")
            problems += 1
    return 2 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
