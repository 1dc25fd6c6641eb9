"""A BERT encoder with mean pooling on torch; see contriever_embedder_test.cc.

    bert_reference.py available                  exit 0 when torch is installed
    bert_reference.py embed DIRECTORY IDS OUT    vectors [texts, D] as raw floats

DIRECTORY has config.json and model.safetensors with fp32 tensors. IDS: for each text the number of
its ids and the ids, 32 bits each, little-endian.
"""
import importlib.util
import json
import math
import struct
import sys

if sys.argv[1] == "available":  # importing torch takes seconds
    sys.exit(0 if importlib.util.find_spec("torch") and importlib.util.find_spec("numpy") else 1)

import numpy as np
import torch
from torch.nn import functional as F


def read_safetensors(path):
    with open(path, "rb") as file:
        data = file.read()
    (length,) = struct.unpack_from("<Q", data)
    tensors = {}
    for name, info in json.loads(data[8 : 8 + length]).items():
        if name != "__metadata__":
            assert info["dtype"] == "F32", name
            begin, end = (8 + length + offset for offset in info["data_offsets"])
            values = np.frombuffer(data[begin:end], np.float32).reshape(info["shape"])
            tensors[name] = torch.from_numpy(values.copy())
    return tensors


def embed(ids, w, config):
    d, heads, eps = config["hidden_size"], config["num_attention_heads"], config["layer_norm_eps"]

    def linear(x, name):
        return F.linear(x, w[name + ".weight"], w[name + ".bias"])

    def norm(x, name):
        return F.layer_norm(x, (d,), w[name + ".weight"], w[name + ".bias"], eps)

    def split(x):  # [T, D] -> [H, T, D / H]
        return torch.stack(x.chunk(heads, dim=-1))

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + w["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(config["num_hidden_layers"]):
        layer = f"encoder.layer.{i}."
        q, k, v = (split(linear(x, layer + "attention.self." + name)) for name in ("query", "key", "value"))
        weights = torch.softmax(torch.einsum("htd,hsd->hts", q, k) / math.sqrt(d // heads), dim=-1)
        mixed = torch.cat(list(torch.einsum("hts,hsd->htd", weights, v)), dim=-1)
        x = norm(x + linear(mixed, layer + "attention.output.dense"), layer + "attention.output.LayerNorm")
        h = F.gelu(linear(x, layer + "intermediate.dense"))
        x = norm(x + linear(h, layer + "output.dense"), layer + "output.LayerNorm")
    return F.normalize(x.mean(dim=0), dim=0)


def main():
    assert sys.argv[1] == "embed"
    directory, ids_path, out_path = sys.argv[2:]
    with open(directory + "/config.json") as file:
        config = json.load(file)
    weights = read_safetensors(directory + "/model.safetensors")
    with open(ids_path, "rb") as file, open(out_path, "wb") as out, torch.no_grad():
        while count := file.read(4):
            n = struct.unpack("<I", count)[0]
            ids = torch.tensor(struct.unpack(f"<{n}i", file.read(4 * n)))
            out.write(embed(ids, weights, config).numpy().astype("<f4").tobytes())


main()
