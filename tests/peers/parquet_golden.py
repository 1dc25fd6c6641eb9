#!/usr/bin/env python3
"""Writes the Parquet files of tests/formats/parquet/golden and the rows that they hold.

Needs pyarrow and duckdb (written with versions 26 and 2.0); the tests need the files only.
"""
import json
import pathlib
import random

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

ROWS = 40
random.seed(1)
WORDS = ["alpha", "data", "the", "γάμμα", "中文", "xxxxxxx"]


def text(i):
    return None if i % 9 == 4 else " ".join(random.choice(WORDS) for _ in range(i % 7))


def nullable(values, step):
    return [None if i % step == 0 else value for i, value in enumerate(values)]


COLUMNS = {
    "text": pa.array([text(i) for i in range(ROWS)]),
    "id": pa.array([f"doc-{i // 3}" for i in range(ROWS)]),
    "i32": pa.array(nullable([i * 37 % 1000 - 500 for i in range(ROWS)], 7), pa.int32()),
    "i64": pa.array([i * 10**12 - 5 for i in range(ROWS)], pa.int64()),
    "u32": pa.array([i * 2654435761 % 2**32 for i in range(ROWS)], pa.uint32()),
    "f": pa.array([i / 8 - 1 for i in range(ROWS)], pa.float32()),
    "d": pa.array(nullable([i / 3 for i in range(ROWS)], 5)),
    "b": pa.array(nullable([i % 3 == 0 for i in range(ROWS)], 4)),
    "fixed": pa.array([bytes([97 + i % 5]) * 4 for i in range(ROWS)], pa.binary(4)),
    "vector": pa.array([None if i % 11 == 0 else [i / 4] * (i % 4) for i in range(ROWS)],
                       pa.list_(pa.float32())),
    "meta": pa.array([{"source": None if i % 6 == 0 else f"s{i % 4}"} if i % 5 else None
                      for i in range(ROWS)], pa.struct([("source", pa.string())])),
}
TABLE = pa.table(COLUMNS)
ENCODINGS = {"text": "DELTA_BYTE_ARRAY", "id": "DELTA_LENGTH_BYTE_ARRAY",
             "i32": "DELTA_BINARY_PACKED", "i64": "DELTA_BINARY_PACKED",
             "u32": "DELTA_BINARY_PACKED", "f": "BYTE_STREAM_SPLIT", "d": "BYTE_STREAM_SPLIT",
             "b": "RLE", "fixed": "DELTA_BYTE_ARRAY"}


def rows():
    values = {}
    for name, column in TABLE.to_pydict().items():
        if name == "meta":
            values["meta.source"] = [row and row["source"] for row in column]
        else:
            values[name] = [v.decode() if isinstance(v, bytes) else v for v in column]
    return {"columns": list(values), "rows": [list(row) for row in zip(*values.values())]}


def write_bombs(directory):
    """Small files of one row group that claim many rows: nulls, and one value repeated."""
    long_text, count = "a long text " * 1700, 300_000
    tables = {"nulls": {"text": pa.nulls(60_000_000, pa.string())},
              "text": {"text": pa.DictionaryArray.from_arrays(
                  pa.array([0] * count, pa.int32()), [long_text])},
              "ids": {"text": pa.nulls(count, pa.string()),
                      "id": pa.DictionaryArray.from_arrays(
                          pa.array([0] * count, pa.int32()), [long_text])}}
    directory.mkdir(exist_ok=True)
    for name, columns in tables.items():
        pq.write_table(pa.table(columns), directory / f"{name}.parquet", compression="zstd",
                       write_statistics=False, store_schema=False, row_group_size=1 << 26,
                       max_rows_per_page=1 << 26)


def varint(value):
    return bytes([value & 127 | 128]) + varint(value >> 7) if value > 127 else bytes([value])


class Long(int):
    """An integer that Thrift stores with 64 bits."""


def thrift(fields):
    """A struct of Thrift's compact protocol; values are integers, texts, structs or lists."""
    def typed(value):
        if isinstance(value, int):
            return 6 if isinstance(value, Long) else 5, varint(value << 1)
        if isinstance(value, str):
            return 8, varint(len(value)) + value.encode()
        if isinstance(value, dict):
            return 12, thrift(value)
        parts = [typed(part) for part in value]
        return 9, bytes([len(parts) << 4 | parts[0][0]]) + b"".join(part for _, part in parts)
    out, before = b"", 0
    for field, value in fields.items():
        kind, encoded = typed(value)
        out += bytes([field - before << 4 | kind]) + encoded
        before = field
    return out + b"\0"


def write_prefix_bomb(path):
    """One text of 512 KiB and 600,000 rows that repeat it, as prefixes of the row before.

    pyarrow would have to hold all texts.
    """
    size, count = 512 << 10, 600_000

    def deltas(first, second):
        """DELTA_BINARY_PACKED: `first`, and `second` for all others."""
        low = min(second - first, 0)
        widths = [32] + [32 if low else 0] * 3
        packed = [second - first - low] + [-low] * (127 if low else 31)
        block = varint(low << 1 if low >= 0 else (-low << 1) - 1) + bytes(widths)
        block += b"".join(number.to_bytes(4, "little") for number in packed)
        return (varint(128) + varint(4) + varint(count) + varint(first << 1) + block +
                bytes(5) * (-(-(count - 1) // 128) - 1))

    page = deltas(0, size) + deltas(size, 0) + b"a" * size
    packed = pa.compress(page, codec="zstd", asbytes=True)
    header = thrift({1: 0, 2: len(page), 3: len(packed), 5: {1: count, 2: 7, 3: 3, 4: 3}})
    chunk = {1: 6, 2: [7], 3: ["text"], 4: 6, 5: Long(count), 6: Long(len(page)),
             7: Long(len(header + packed)), 9: Long(4)}
    footer = thrift({1: 1, 2: [{4: "root", 5: 1}, {1: 6, 3: 0, 4: "text", 6: 0}], 3: Long(count),
                     4: [{1: [{2: Long(4), 3: chunk}], 2: Long(len(page)), 3: Long(count)}]})
    path.write_bytes(b"PAR1" + header + packed + footer + len(footer).to_bytes(4, "little") +
                     b"PAR1")


def write_list_bomb(path):
    """One row: a text, and a list of 2^26 nulls, whose levels are three runs."""
    count = 1 << 26

    def runs(*values):
        """Levels, each as often as given, after their length in bytes."""
        levels = b"".join(varint(times << 1) + bytes([level]) for level, times in values)
        return len(levels).to_bytes(4, "little") + levels

    def chunk(name, kind, values, levels, at):
        header = thrift({1: 0, 2: len(levels), 3: len(levels), 5: {1: values, 2: 0, 3: 3, 4: 3}})
        size = Long(len(header + levels))
        return header + levels, {2: Long(at), 3: {1: kind, 2: [0], 3: name, 4: 0, 5: Long(values),
                                                  6: size, 7: size, 9: Long(at)}}

    text, of_text = chunk(["text"], 6, 1, (1).to_bytes(4, "little") + b"x", 4)
    lists, of_lists = chunk(["v", "list", "element"], 4, count,
                            runs((0, 1), (1, count - 1)) + runs((2, count)), 4 + len(text))
    schema = [{4: "root", 5: 2}, {1: 6, 3: 0, 4: "text", 6: 0}, {3: 1, 4: "v", 5: 1, 6: 3},
              {3: 2, 4: "list", 5: 1}, {1: 4, 3: 1, 4: "element"}]
    footer = thrift({1: 1, 2: schema, 3: Long(1),
                     4: [{1: [of_text, of_lists], 2: Long(len(text + lists)), 3: Long(1)}]})
    path.write_bytes(b"PAR1" + text + lists + footer + len(footer).to_bytes(4, "little") + b"PAR1")


def main():
    bombs = pathlib.Path(__file__).parent.parent / "formats/parquet/bombs"
    write_bombs(bombs)
    write_prefix_bomb(bombs / "prefixes.parquet")
    write_list_bomb(bombs / "lists.parquet")
    golden = pathlib.Path(__file__).parent.parent / "formats/parquet/golden"
    options = {"row_group_size": 25, "data_page_size": 200, "write_batch_size": 8}
    for version in ("1.0", "2.0"):
        for codec in ("none", "snappy", "gzip", "brotli", "zstd", "lz4"):
            pq.write_table(TABLE, golden / f"{codec}-{version[0]}.parquet", compression=codec,
                           data_page_version=version, use_dictionary=version == "1.0",
                           write_page_checksum=codec != "none", **options)
        pq.write_table(TABLE, golden / f"encodings-{version[0]}.parquet", use_dictionary=False,
                       column_encoding=ENCODINGS, data_page_version=version, **options)
    written = TABLE  # duckdb finds it by its name
    for version, codec in (("V1", "snappy"), ("V2", "zstd")):
        duckdb.sql(f"COPY (SELECT * FROM written) TO '{golden}/duckdb-{version[1]}.parquet' (FORMAT parquet, "
                   f"CODEC '{codec}', PARQUET_VERSION {version}, ROW_GROUP_SIZE 2048)")
    (golden / "rows.json").write_text(json.dumps(rows(), ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
