#!/usr/bin/env python3
"""Computes the logits of exported models and compares them with ours.

An implementation of its own, from the architecture and docs/formats/export.md;
it shares nothing with braid but the files. Each CASE directory holds

    export/              what braid wrote
    tokens.npy           int32 [sequences, length]
    logits.npy           float32 [sequences, n, vocabulary], ours of the last n positions

Usage: reference_models.py --available | reference_models.py CASE...
"""
import json
import pathlib
import struct
import sys

import numpy
import torch
from torch.nn.functional import embedding, layer_norm, linear, silu, softmax

TOLERANCE = 1e-4


def read_safetensors(path):
    """Tensors of one file by name, as float32."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    assert header.pop("__metadata__")["format"] == "pt", path
    body, tensors, expected = data[8 + length :], {}, 0
    for name, entry in sorted(header.items(), key=lambda item: item[1]["data_offsets"]):
        begin, end = entry["data_offsets"]
        assert begin == expected, (path, name)
        expected = end
        if entry["dtype"] == "BF16":
            upper = numpy.frombuffer(body[begin:end], "<u2").astype("<u4")
            array = (upper << 16).view("<f4")
        else:
            array = numpy.frombuffer(body[begin:end], {"F32": "<f4", "F16": "<f2"}[entry["dtype"]])
        tensors[name] = torch.from_numpy(array.astype(numpy.float32).reshape(entry["shape"]))
    assert expected == len(body), path
    return tensors


def read_weights(directory):
    index = directory / "model.safetensors.index.json"
    if not index.exists():
        return read_safetensors(directory / "model.safetensors")
    weight_map = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for name in sorted(set(weight_map.values())):
        shard = read_safetensors(directory / name)
        assert all(weight_map[tensor] == name for tensor in shard), name
        tensors.update(shard)
    assert set(tensors) == set(weight_map)
    return tensors


def rms_norm(x, weight, epsilon):
    return weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)


def rotate_half(x):
    first, second = x.chunk(2, -1)
    return torch.cat((-second, first), -1)


def swiglu(x, gate, up, down):
    return linear(silu(linear(x, gate)) * linear(x, up), down)


def split_mix(state):
    """The number that SplitMix64 returns in a state before the increment."""
    state = (state + 0x9E3779B97F4A7C15) % 2**64
    state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    state = (state ^ (state >> 27)) * 0x94D049BB133111EB % 2**64
    return state ^ (state >> 31)


def hash_score(layer, token_id, expert):
    """Number `expert` - 1 after a state that depends on the layer and the token."""
    state = split_mix(split_mix(layer) ^ token_id) + (expert - 1) * 0x9E3779B97F4A7C15
    return (split_mix(state % 2**64) >> 11) * 2.0**-53


class Model:
    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.weights = read_weights(directory)
        self.heads = self.config["num_attention_heads"]
        self.width = self.config.get("head_dim", self.config["hidden_size"] // self.heads)
        self.dense = self.config["model_type"] in ("llama", "qwen2", "qwen3")
        assert self.dense or self.config["model_type"] in ("braid_soft_moe", "mixtral")
        every = range(self.config["num_hidden_layers"])
        if self.config["model_type"] == "mixtral":
            self.read_mixtral(every)
        experts = "mlp.experts.gate_proj.weight"
        routed = [i for i in every if f"model.layers.{i}.{experts}" in self.weights]
        assert routed == ([] if self.dense else self.config.get("moe_layers", list(every)))

    def read_mixtral(self, layers):
        """Stacks the matrices of Mixtral's experts under the names of the other layout."""
        self.config.update(router="TOKEN_CHOICE", gate="LINEAR", selection="TOP",
                           combine_weights="SOFTMAX_OF_CHOSEN")
        for i in layers:
            prefix = f"model.layers.{i}."
            moe = prefix + "block_sparse_moe."
            router = self.weights.pop(moe + "gate.weight")
            self.weights[prefix + "mlp.router.weight"] = router
            for name, matrix in (("gate", "w1"), ("up", "w3"), ("down", "w2")):
                experts = range(self.config["num_local_experts"])
                matrices = [self.weights.pop(f"{moe}experts.{e}.{matrix}.weight") for e in experts]
                self.weights[f"{prefix}mlp.experts.{name}_proj.weight"] = torch.stack(matrices)

    def layer(self, number, name):
        return self.weights[f"model.layers.{number}.{name}.weight"]

    def frequencies(self):
        """Rotary frequencies [width / 2]; scaled as by transformers' modeling_rope_utils."""
        steps = torch.arange(0, self.width, 2, dtype=torch.float64) / self.width
        frequency = self.config["rope_theta"] ** -steps
        rope = self.config["rope_scaling"]
        if rope is None:
            return frequency
        if rope["rope_type"] == "linear":
            return frequency / rope["factor"]
        assert rope["rope_type"] == "llama3"
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        wavelength = 2 * torch.pi / frequency
        turns = rope["original_max_position_embeddings"] / wavelength
        smooth = (turns - low) / (high - low)
        scaled = torch.where(turns < low, frequency / rope["factor"], frequency)
        blended = (1 - smooth) * frequency / rope["factor"] + smooth * frequency
        return torch.where((turns >= low) & (turns <= high), blended, scaled)

    def project(self, number, name, x):
        """The heads [heads, L, width] of the queries, keys or values of x [L, D]."""
        bias = self.weights.get(f"model.layers.{number}.self_attn.{name}_proj.bias")
        heads = linear(x, self.layer(number, f"self_attn.{name}_proj"), bias)
        heads = heads.view(x.shape[0], -1, self.width).transpose(0, 1)
        norm = self.weights.get(f"model.layers.{number}.self_attn.{name}_norm.weight")
        return heads if norm is None else rms_norm(heads, norm, self.config["rms_norm_eps"])

    def attention(self, number, x):
        """Causal attention of one sequence; x [L, D]."""
        length = x.shape[0]
        q, k, v = (self.project(number, name, x) for name in "qkv")
        assert k.shape[0] == self.config["num_key_value_heads"]
        k, v = (t.repeat_interleave(self.heads // t.shape[0], 0) for t in (k, v))
        positions = torch.arange(length, dtype=torch.float64)
        angle = torch.outer(positions, self.frequencies()).repeat(1, 2)
        cosine, sine = angle.cos().float(), angle.sin().float()
        q = q * cosine + rotate_half(q) * sine
        k = k * cosine + rotate_half(k) * sine
        scores = q @ k.transpose(1, 2) / self.width**0.5
        scores = scores.masked_fill(torch.ones(length, length).triu(1).bool(), -torch.inf)
        mixed = (softmax(scores, -1) @ v).transpose(0, 1).reshape(length, -1)
        return linear(mixed, self.layer(number, "self_attn.o_proj"))

    def decide(self, number, x):
        """Weights of the experts from the mean of x [n, D]."""
        mean = x.mean(0)
        if self.config["router_input"] == "NORMALIZED_MEAN":
            mean = layer_norm(mean, mean.shape)
        return softmax(linear(mean, self.layer(number, "mlp.router")), -1)

    def decisions(self, number, x):
        """Pieces of x [L, D], each with the weights of the experts for it."""
        router = self.config["router"]
        if router == "EXPERT_CHOICE_TOKEN":
            return [(token, self.decide(number, token)) for token in x.split(1)]
        segments = x.split(self.config["segment_length"])
        own = self.decide(number, segments[0])
        first = own
        if self.config["first_segment"] == "UNIFORM":
            first = torch.full_like(own, 1 / len(own))
        if router == "PREFIX":
            later = [own] * (len(segments) - 1)
        else:
            later = [self.decide(number, segment) for segment in segments[:-1]]
        return list(zip(segments, [first] + later))

    def expert_ffn(self, number, x, weights):
        gate, up, down = (
            self.layer(number, f"mlp.experts.{name}_proj") for name in ("gate", "up", "down")
        )
        if self.config["router"].startswith("EXPERT_CHOICE"):
            best = int(weights.argmax())
            return weights[best] * swiglu(x, gate[best], up[best], down[best])
        gate, up, down = (torch.einsum("e,eij->ij", weights, m) for m in (gate, up, down))
        return swiglu(x, gate, up, down)

    def gate_scores(self, number, token, token_id, key_means):
        """The score of each expert for a token [D]."""
        if self.config["gate"] == "HASH":
            return torch.tensor([hash_score(number, token_id, e) for e in range(len(key_means))])
        if self.config["gate"] == "RANDOM":
            assert self.config["num_experts_per_tok"] == len(key_means), "all experts together"
            return torch.zeros(len(key_means))
        if self.config["gate"] == "KEY_MEAN":
            return linear(token, key_means)
        vectors = self.layer(number, "mlp.router")
        if self.config["gate"] != "COSINE":
            return linear(token, vectors)
        assert self.config["projection_width"] == vectors.shape[1]
        projected = self.layer(number, "mlp.router.projection") @ token
        cosines = vectors @ projected / (vectors.norm(dim=1) * projected.norm())
        scale = self.weights[f"model.layers.{number}.mlp.router.log_scale"].exp()
        return cosines * min(scale.item(), 100)

    def token_choice(self, number, token, token_id):
        """The output of one token [D] that chooses its experts."""
        config = self.config
        gate, up, down = (
            self.layer(number, f"mlp.experts.{name}_proj") for name in ("gate", "up", "down")
        )
        scores = self.gate_scores(number, token, token_id, gate.mean(1)).tolist()
        if config["gate"] == "RELU":
            return sum((s * swiglu(token, gate[e], up[e], down[e])
                        for e, s in enumerate(scores) if s > 0), torch.zeros_like(token))
        k = config["num_experts_per_tok"]
        best_first = sorted(range(len(scores)), key=lambda e: (-scores[e], e))
        worst_first = sorted(range(len(scores)), key=lambda e: (scores[e], e))
        after_best = best_first[min(k, len(scores) - k):]
        chosen = {"TOP": best_first, "BOTTOM": worst_first, "NOT_TOP": after_best}[
            config["selection"]][:k]
        weights = {
            "SOFTMAX_OF_CHOSEN": softmax(torch.tensor([scores[e] for e in chosen]), -1),
            "CHOSEN_OF_SOFTMAX": softmax(torch.tensor(scores), -1)[chosen],
            "ONES": torch.ones(k),
            "EQUAL": torch.full((k,), 1 / k),
        }[config["combine_weights"]]
        return sum(w * swiglu(token, gate[e], up[e], down[e]) for w, e in zip(weights, chosen))

    def ffn(self, number, x, tokens):
        if f"model.layers.{number}.mlp.experts.gate_proj.weight" not in self.weights:
            return swiglu(x, *(self.layer(number, f"mlp.{n}_proj") for n in ("gate", "up", "down")))
        if self.config["router"] == "TOKEN_CHOICE":
            pairs = zip(x, tokens.tolist())
            return torch.stack([self.token_choice(number, *pair) for pair in pairs])
        outputs = [self.expert_ffn(number, *piece) for piece in self.decisions(number, x)]
        return torch.cat(outputs)

    def logits(self, tokens):
        epsilon = self.config["rms_norm_eps"]
        table = self.weights["model.embed_tokens.weight"]
        h = embedding(tokens, table)
        for number in range(self.config["num_hidden_layers"]):
            h = h + self.attention(number, rms_norm(h, self.layer(number, "input_layernorm"), epsilon))
            x = rms_norm(h, self.layer(number, "post_attention_layernorm"), epsilon)
            h = h + self.ffn(number, x, tokens)
        h = rms_norm(h, self.weights["model.norm.weight"], epsilon)
        tied = self.config["tie_word_embeddings"]
        assert tied != ("lm_head.weight" in self.weights)
        logits = linear(h, table if tied else self.weights["lm_head.weight"])
        cap = self.config.get("logit_soft_cap", 0)
        return cap * torch.tanh(logits / cap) if cap else logits


class Gpt2:
    """GPT2LMHeadModel: matrices have inputs as rows, positions are learned, the head is tied."""

    def __init__(self, directory):
        self.config = json.loads((directory / "config.json").read_text())
        self.weights = read_weights(directory)
        assert self.config["architectures"] == ["GPT2LMHeadModel"]
        assert self.config["activation_function"] == "gelu_new"

    def norm(self, name, x):
        weights = (self.weights[f"transformer.{name}.{kind}"] for kind in ("weight", "bias"))
        return layer_norm(x, x.shape[-1:], *weights, eps=self.config["layer_norm_epsilon"])

    def product(self, name, x):
        return x @ self.weights[f"transformer.{name}.weight"] + self.weights[f"transformer.{name}.bias"]

    def attention(self, layer, x):
        q, k, v = (part.unflatten(1, (self.config["n_head"], -1)).transpose(0, 1)
                   for part in self.product(f"{layer}.attn.c_attn", x).chunk(3, 1))
        scores = q @ k.transpose(1, 2) / q.shape[2] ** 0.5
        future = torch.ones(len(x), len(x), dtype=torch.bool).triu(1)
        mixed = softmax(scores.masked_fill(future, -torch.inf), -1) @ v
        return self.product(f"{layer}.attn.c_proj", mixed.transpose(0, 1).flatten(1))

    def logits(self, tokens):
        table = self.weights["transformer.wte.weight"]
        h = table[tokens] + self.weights["transformer.wpe.weight"][: len(tokens)]
        for number in range(self.config["n_layer"]):
            layer = f"h.{number}"
            h = h + self.attention(layer, self.norm(f"{layer}.ln_1", h))
            z = self.product(f"{layer}.mlp.c_fc", self.norm(f"{layer}.ln_2", h))
            hidden = z / 2 * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (z + 0.044715 * z**3)))
            h = h + self.product(f"{layer}.mlp.c_proj", hidden)
        return self.norm("ln_f", h) @ table.t()


def compare(case):
    config = json.loads((case / "export" / "config.json").read_text())
    model = (Gpt2 if config["model_type"] == "gpt2" else Model)(case / "export")
    tokens = torch.from_numpy(numpy.load(case / "tokens.npy").astype(numpy.int64))
    ours = numpy.load(case / "logits.npy")
    with torch.no_grad():
        reference = torch.stack([model.logits(sequence) for sequence in tokens]).numpy()
    reference = reference[:, -ours.shape[1] :]
    assert reference.shape == ours.shape, (case.name, reference.shape, ours.shape)
    worst = numpy.abs(reference - ours).max()
    print(f"{case.name}: largest difference {worst:.2e}, largest logit {numpy.abs(ours).max():.2f}")
    return worst <= TOLERANCE


if __name__ == "__main__":
    if sys.argv[1:] == ["--available"]:
        sys.exit(0)
    torch.set_num_threads(1)
    results = [compare(pathlib.Path(name)) for name in sys.argv[1:]]
    sys.exit(0 if results and all(results) else 1)
