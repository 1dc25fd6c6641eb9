#!/usr/bin/env python3
"""Compares the rows that braid reads of Parquet files with those that were written.

Writes files with pyarrow and duckdb, of every codec, page version, encoding and several row groups,
with nulls and nested columns; reads them with braid, and with the other library as a check of the
files. Needs build/bin/braid and the packages pyarrow and duckdb.
"""
import pathlib
import random
import sys
import tempfile

import duckdb
import pyarrow
import pyarrow.parquet

from braid_command import Home

ROWS = 150
WORDS = ["alpha", "data", "the", "γάμμα", "中文", "xxxxxxxxxxx", "\n", "a\tb"]
TEXT_ENCODINGS = ("PLAIN", "DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY")


def rows_of(name):
    rng = random.Random(name)
    for row in range(ROWS):
        text = None if rng.random() < .1 else " ".join(["w"] + rng.choices(WORDS, k=rng.randrange(30)))
        meta = None if rng.random() < .1 else {"id": None if rng.random() < .1 else f"{name}-{row}"}
        yield {"text": text, "number": row, "meta": meta, "vector": [(row + 1) / 7] * 3}


def table_of(name):
    schema = pyarrow.schema([("text", pyarrow.string()), ("number", pyarrow.int64()),
                             ("meta", pyarrow.struct([("id", pyarrow.string())])),
                             ("vector", pyarrow.list_(pyarrow.float32()))])
    return pyarrow.Table.from_pylist(list(rows_of(name)), schema)


def write_with_pyarrow(directory):
    options = {"row_group_size": 64, "data_page_size": 300, "write_batch_size": 16}
    for version in ("1.0", "2.0"):
        for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
            for encoding in ("dictionary", *TEXT_ENCODINGS):
                name = f"pyarrow-{codec}-{version}-{encoding}"
                how = {"use_dictionary": True} if encoding == "dictionary" else {
                    "use_dictionary": False, "column_encoding": {
                        "text": encoding, "meta.id": encoding, "number": "DELTA_BINARY_PACKED"}}
                pyarrow.parquet.write_table(
                    table_of(name), directory / f"{name}.parquet", compression=codec,
                    data_page_version=version, write_page_checksum=version == "1.0", **how, **options)
                yield name


def write_with_duckdb(directory):
    for version in ("V1", "V2"):
        for codec in ("uncompressed", "snappy", "gzip", "brotli", "zstd", "lz4_raw"):
            name = f"duckdb-{codec}-{version}"
            written = table_of(name)  # found by its name
            duckdb.sql(f"COPY (SELECT * FROM written) TO '{directory}/{name}.parquet' (FORMAT parquet, "
                       f"CODEC '{codec}', PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")
            yield name


def documents_of(name):
    for row, values in enumerate(rows_of(name)):
        if values["text"] is not None:
            given = values["meta"] and values["meta"]["id"]
            yield given or f"{name}.parquet:{row}", values["text"]


def read_by_others(path):
    """Checks that another reader finds the rows that were written."""
    written = [row["text"] for row in rows_of(path.stem)]
    if path.stem.startswith("pyarrow"):
        return [row[0] for row in duckdb.sql(f"SELECT text FROM '{path}'").fetchall()] == written
    return pyarrow.parquet.read_table(path)["text"].to_pylist() == written


def main():
    with tempfile.TemporaryDirectory() as scratch:
        directory = pathlib.Path(scratch)
        names = [*write_with_pyarrow(directory), *write_with_duckdb(directory)]
        paths = [directory / f"{name}.parquet" for name in names]
        others = all([read_by_others(path) for path in paths])
        home = Home(directory)
        home.submit(*paths, "--order", "SOURCE", "--embedding-field", "vector",
                    "--set", "ingest.id_field=meta.id")
        ours = list(zip(*home.documents()))
        expected = [document for name in names for document in documents_of(name)]
        same = ours == expected
        print(f"{len(names)} Parquet files, {len(ours)} of {len(expected)} documents, "
              f"{'the same' if same else 'OTHER'} rows")
        for our, theirs in zip(ours, expected):
            if our != theirs:
                print(f"  ours {our}\n  theirs {theirs}")
                break
        return 0 if same and others and len(names) >= 40 else 1


if __name__ == "__main__":
    sys.exit(main())
