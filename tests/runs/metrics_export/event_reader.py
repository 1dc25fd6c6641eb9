#!/usr/bin/env python3
"""Reads event files and tables with nothing of braid's, and compares them with
the metrics.jsonl they were made of.

  event_reader.py self-test
  event_reader.py events DIRECTORY METRICS_JSONL   all event files of a directory
  event_reader.py csv TABLE METRICS_JSONL

Framing, checksums and message fields are decoded here from the format's
description. Of several files what a later one voids is dropped, as TensorBoard
drops it, and every value must be there exactly once.
"""
import csv
import json
import math
import pathlib
import struct
import sys


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


TABLE = crc_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def masked(data):
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def records(data):
    """The records of a file; one that is cut short at the end is none."""
    at = 0
    while at + 12 <= len(data):
        length, check = struct.unpack_from("<QI", data, at)
        assert check == masked(data[at : at + 8]), f"checksum of the length at {at}"
        if at + 16 + length > len(data):
            return
        body = data[at + 12 : at + 12 + length]
        (check,) = struct.unpack_from("<I", data, at + 12 + length)
        assert check == masked(body), f"checksum of the data at {at}"
        yield body
        at += 16 + length


def varint(data, at):
    value = shift = 0
    while True:
        value |= (data[at] & 0x7F) << shift
        shift += 7
        at += 1
        if data[at - 1] < 0x80:
            return value, at


def fields(data):
    """{field number: [raw values]} of a message."""
    found, at = {}, 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
        elif kind == 1:
            value, at = data[at : at + 8], at + 8
        elif kind == 5:
            value, at = data[at : at + 4], at + 4
        else:
            assert kind == 2, f"wire type {kind}"
            length, at = varint(data, at)
            value, at = data[at : at + length], at + length
        assert at <= len(data), "message cut short"
        found.setdefault(key >> 3, []).append(value)
    return found


def double(raw):
    return struct.unpack("<d", raw)[0]


def doubles(raw):
    return list(struct.unpack(f"<{len(raw) // 8}d", raw))


def value_of(raw):
    """(tag, float | text | histogram) of a Summary.Value."""
    value = fields(raw)
    tag = value[1][0].decode("utf-8")
    if 2 in value:
        return tag, struct.unpack("<f", value[2][0])[0]
    if 5 in value:
        histogram = fields(value[5][0])
        one = lambda n: double(histogram[n][0]) if n in histogram else 0.0
        return tag, {
            "min": one(1),
            "max": one(2),
            "num": one(3),
            "limits": doubles(histogram[6][0]),
            "counts": doubles(histogram[7][0]),
        }
    metadata, tensor = fields(value[9][0]), fields(value[8][0])
    assert fields(metadata[1][0])[1] == [b"text"], "plugin"
    assert metadata[4] == [2], "data class"
    assert tensor[1] == [7] and tensor[2] == [b""], "a string without dimensions"
    return tag, tensor[8][0].decode("utf-8")


def read_events(directory):
    """[(step, wall time, tag, value)] of all files, without what was voided."""
    kept = []
    paths = sorted(p for p in pathlib.Path(directory).iterdir() if "tfevents" in p.name)
    assert paths, "no event files"
    for path in paths:
        for number, body in enumerate(records(path.read_bytes())):
            event = fields(body)
            wall_time = double(event[1][0]) if 1 in event else 0.0
            step = event.get(2, [0])[0]
            if number == 0:
                assert event[3] == [b"brain.Event:2"], "version"
            elif 7 in event:
                assert fields(event[7][0])[1] == [1], "START"
                kept = [one for one in kept if one[0] < step]
            else:
                for raw in fields(event[5][0])[1]:
                    tag, value = value_of(raw)
                    kept.append((step, wall_time, tag, value))
    return kept


GROUPS = {
    "train": "loss loss_after_first_segment perplexity learning_rate gradient_norm num_tokens "
    "upcycled active_experts balance_loss consistency mean_active_experts l1_coefficient",
    "speed": "tokens_per_second step_seconds gflops model_flops_utilization",
    "memory": "resident_mb peak_resident_mb",
}
UNKNOWN_WHEN_ZERO = set(
    "perplexity gflops model_flops_utilization resident_mb peak_resident_mb active_experts "
    "balance_loss consistency mean_active_experts l1_coefficient loss_after_first_segment".split()
)
ACTIONS = "SPIKE_POLICY_UNSPECIFIED CONTINUE SKIP_BATCH ROLLBACK".split()
LAYER = "entropy effective_experts active_experts expert_cosine".split()
LOADS = "busiest_over_mean starved_experts load_entropy".split()


def expected_scalars(line):
    """{(tag, column): value} of a line of metrics.jsonl."""
    scalars = {}
    for group, names in GROUPS.items():
        for name in names.split():
            value = float(line.get(name, 0))
            if value != 0 or name not in UNKNOWN_WHEN_ZERO:
                scalars[f"{group}/{name}", name] = value
    for name, value in line.get("times", {}).items():
        scalars[f"time/{name}", f"times.{name}"] = float(value)
    for part in ("validation", "spike"):
        for name, value in line.get(part, {}).items():
            if isinstance(value, list):
                continue
            number = ACTIONS.index(value) if name == "action" else float(value)
            if number != 0 or name not in UNKNOWN_WHEN_ZERO:
                scalars[f"{part}/{name}", f"{part}.{name}"] = number
    for layer in line.get("routing", []):
        n = layer["layer"]
        for name in LAYER + (LOADS if layer.get("load") else []):
            scalars[f"routing/layer_{n:02d}/{name}", f"routing.layer_{n}.{name}"] = float(
                layer[name]
            )
    return scalars


def same(got, expected):
    return got == expected or (math.isnan(got) and math.isnan(expected))


def to_float32(value):
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def lines_of(path):
    text = pathlib.Path(path).read_text(encoding="utf-8")
    return [json.loads(line) for line in text.split("\n")[:-1]]


def check_weights(histogram, weights):
    used = [e for e, weight in enumerate(weights) if weight > 0]
    assert histogram["limits"] == [e + 1 for e in range(len(weights))]
    assert histogram["counts"] == weights
    assert math.isclose(histogram["num"], sum(weights))
    assert (histogram["min"], histogram["max"]) == (used[0], used[-1] + 1)


def check_events(directory, metrics):
    numbers, others = {}, {}
    for step, wall_time, tag, value in read_events(directory):
        assert (tag, step) not in numbers and (tag, step) not in others, f"{tag} twice at {step}"
        (numbers if isinstance(value, float) else others)[tag, step] = (value, wall_time)
    for line in lines_of(metrics):
        step = int(line["step"])
        for (tag, _), value in expected_scalars(line).items():
            got, wall_time = numbers.pop((tag, step))
            assert same(got, to_float32(value)), f"{tag} at {step}: {got}, expected {value}"
            assert wall_time == line["time"], f"time of step {step}"
        for layer in line.get("routing", []):
            tag = f"routing/layer_{layer['layer']:02d}/weight_by_expert"
            check_weights(others.pop((tag, step))[0], layer["mean_weights"])
            if layer.get("load"):
                tag = f"routing/layer_{layer['layer']:02d}/load_by_expert"
                check_weights(others.pop((tag, step))[0], layer["load"])
    rest = {tag for tag, _ in list(numbers) + list(others)}
    rest = {tag for tag in rest if not tag.startswith(("heldout/", "run/"))}
    assert not rest, f"unexpected: {sorted(rest)[:5]}"
    assert any(tag == "run/configuration" for tag, _ in others), "no configuration"
    for (tag, step), value in sorted(list(numbers.items()) + list(others.items())):
        print(tag, step, json.dumps(value[0]))


def check_csv(table, metrics):
    text = pathlib.Path(table).read_bytes()
    assert text.count(b"\r\n") == text.count(b"\n"), "ends of lines"
    header, *rows = csv.reader(text.decode("utf-8").split("\r\n")[:-1])
    lines = lines_of(metrics)
    assert len(rows) == len(lines), f"{len(rows)} rows, {len(lines)} lines"
    assert len(set(header)) == len(header), "a column twice"
    for cells, line in zip(rows, lines):
        assert len(cells) == len(header)
        got = {name: cell for name, cell in zip(header, cells) if cell != ""}
        assert int(got.pop("step")) == int(line["step"])
        assert float(got.pop("time", 0)) == line.get("time", 0)
        expected = {column: value for (_, column), value in expected_scalars(line).items()}
        for layer in line.get("routing", []):
            for name in ("mean_weights", "load"):
                for e, number in enumerate(layer.get(name, [])):
                    expected[f"routing.layer_{layer['layer']}.{name}.{e}"] = number
        assert got.keys() == expected.keys(), got.keys() ^ expected.keys()
        for name, value in expected.items():
            assert same(float(got[name]), float(value)), f"{name}: {got[name]}, expected {value}"


def self_test():
    assert crc32c(b"123456789") == 0xE3069283
    assert masked(b"123456789") == 0xC78AB0E5
    assert varint(b"\xac\x02", 0) == (300, 2)


if __name__ == "__main__":
    command, *arguments = sys.argv[1:]
    {"self-test": self_test, "events": check_events, "csv": check_csv}[command](*arguments)
