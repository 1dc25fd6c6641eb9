"""The other side of numpy_interop_test.cc.

    numpy_interop.py available          exit 0 when NumPy can be imported
    numpy_interop.py write DIRECTORY    write arrays for the C++ readers
    numpy_interop.py check DIRECTORY    check what the C++ writers wrote

Element i of every array is (37 i + 11) mod 101, exact in every type.
"""
import json
import os
import struct
import sys

import numpy as np

TYPES = ["f4", "f8", "i4", "i8", "u1", "u2", "u4"]
SHAPES = {"line": (5,), "matrix": (17, 3), "cube": (2, 3, 4), "empty": (0, 4), "long": (123456,)}


def values(shape, dtype):
    flat = (37 * np.arange(np.prod(shape, dtype=np.int64), dtype=np.int64) + 11) % 101
    return flat.astype(dtype).reshape(shape)


def each_array():
    for type_name in TYPES:
        for name, shape in SHAPES.items():
            yield f"{name}.{type_name}.npy", values(shape, np.dtype("<" + type_name))


def write(directory):
    for name, array in each_array():
        np.save(os.path.join(directory, name), array)


def check_npy(directory):
    for name, expected in each_array():
        path = os.path.join(directory, name)
        got = np.load(path, allow_pickle=False, mmap_mode="r" if expected.size else None)
        assert got.dtype == expected.dtype and got.shape == expected.shape, (name, got.dtype, got.shape)
        assert (got == expected).all(), name


def check_indexed_dataset(prefix):
    with open(prefix + ".idx", "rb") as file:
        index = file.read()
    assert index[:9] == b"MMIDIDX\0\0"
    version, code, sequences, entries = struct.unpack_from("<QBQQ", index, 9)
    assert (version, code) == (1, 8)
    lengths = np.frombuffer(index, np.int32, sequences, 34)
    pointers = np.frombuffer(index, np.int64, sequences, 34 + lengths.nbytes)
    documents = np.frombuffer(index, np.int64, entries, 34 + lengths.nbytes + pointers.nbytes)
    assert sequences == 10
    assert documents.tolist() == list(range(sequences + 1))
    tokens = np.memmap(prefix + ".bin", np.uint16, "r")
    for i in range(sequences):
        got = np.frombuffer(tokens, np.uint16, lengths[i], pointers[i])
        assert lengths[i] == 3 * i + 1 and (got == values((3 * i + 1,), np.uint16)).all(), i


def check_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__") == {"format": "pt", "made by": "test"}
    assert (8 + length) % 8 == 0
    for name, tensor in header.items():
        begin, end = tensor["data_offsets"]
        dtype = {"F32": np.float32, "I64": np.int64}[tensor["dtype"]]
        got = np.frombuffer(data[8 + length + begin : 8 + length + end], dtype)
        assert (got.reshape(tensor["shape"]) == values(tensor["shape"], dtype)).all(), name
    assert sorted(header) == ["weights", "counts"][::-1]


def main():
    command = sys.argv[1]
    if command == "write":
        write(sys.argv[2])
    elif command == "check":
        check_npy(sys.argv[2])
        check_indexed_dataset(os.path.join(sys.argv[2], "tokens"))
        check_safetensors(os.path.join(sys.argv[2], "model.safetensors"))


main()
