"""Soft mixtures of experts with routing by segment (Lory, arXiv 2405.03133), as braid exports them.

    from transformers import AutoModelForCausalLM, AutoTokenizer
    model = AutoModelForCausalLM.from_pretrained(DIR, trust_remote_code=True)

Without a key-value cache, forward() routes every segment by the one before it, as in training: the
logits are causal after the first segment. With a cache, as generate() calls it, the prompt is
routed once (config.generation_routing "prompt", the default), after which the model is dense, or
by segment ("segment"). Rows of a batch are routed on their own; attention_mask marks padding.
"""
import copy
import types

import torch
from torch import nn
from torch.nn import functional
from transformers import GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutputWithPast


class BraidSoftMoeConfig(PretrainedConfig):
    model_type = "braid_soft_moe"

    def __init__(self, router="CAUSAL_SEGMENT", num_experts=2, segment_length=256,
                 first_segment="SELF_STOP_GRADIENT", router_input="NORMALIZED_MEAN",
                 moe_layers=None, qkv_bias=False, qk_norm=False, head_dim=None, rope_theta=10000.0,
                 rope_scaling=None, generation_routing="prompt", gate="LINEAR",
                 combine_weights="SOFTMAX_OF_CHOSEN", selection="TOP", num_experts_per_tok=2,
                 moe_intermediate_size=None, projection_width=None, logit_soft_cap=0.0, **kwargs):
        self.router = router
        self.num_experts = num_experts
        self.segment_length = segment_length
        self.first_segment = first_segment
        self.router_input = router_input
        self.moe_layers = moe_layers
        self.qkv_bias = qkv_bias
        self.qk_norm = qk_norm
        self.head_dim = head_dim
        self.rotary = {"theta": rope_theta, "scaling": rope_scaling}
        self.generation_routing = generation_routing
        self.gate = gate
        self.combine_weights = combine_weights
        self.selection = selection
        self.num_experts_per_tok = num_experts_per_tok
        self.moe_intermediate_size = moe_intermediate_size
        self.projection_width = projection_width
        self.logit_soft_cap = logit_soft_cap
        super().__init__(**kwargs)

    def to_dict(self):
        """The fields as braid writes them, so that a saved model can be loaded and imported."""
        fields = super().to_dict()
        rotary = fields.pop("rotary", None) or {}
        fields["rope_theta"] = rotary.get("theta", 10000.0)
        fields["rope_scaling"] = rotary.get("scaling")
        return fields


def rotary_frequencies(width, theta, scaling):
    """Frequencies [width / 2]; scaled as LLaMA 3 or linearly."""
    frequency = theta ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    if scaling is None:
        return frequency
    if scaling["rope_type"] == "linear":
        return frequency / scaling["factor"]
    low, high = scaling["low_freq_factor"], scaling["high_freq_factor"]
    turns = scaling["original_max_position_embeddings"] * frequency / (2 * torch.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1)
    return kept * frequency + (1 - kept) * frequency / scaling["factor"]


class RmsNorm(nn.Module):
    def __init__(self, width, epsilon):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.epsilon = epsilon

    def forward(self, x):
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + self.epsilon)
        return (wide * scale).to(x.dtype) * self.weight


class Attention(nn.Module):
    """Grouped-query attention; x [B, T, D]."""

    def __init__(self, config, number):
        super().__init__()
        self.number = number
        self.heads = config.num_attention_heads
        self.key_heads = config.num_key_value_heads
        self.width = config.head_dim or config.hidden_size // self.heads
        query, key = self.heads * self.width, self.key_heads * self.width
        self.q_proj = nn.Linear(config.hidden_size, query, bias=config.qkv_bias)
        self.k_proj = nn.Linear(config.hidden_size, key, bias=config.qkv_bias)
        self.v_proj = nn.Linear(config.hidden_size, key, bias=config.qkv_bias)
        self.o_proj = nn.Linear(query, config.hidden_size, bias=False)
        self.q_norm = RmsNorm(self.width, config.rms_norm_eps) if config.qk_norm else nn.Identity()
        self.k_norm = RmsNorm(self.width, config.rms_norm_eps) if config.qk_norm else nn.Identity()

    def split(self, x):
        return x.view(*x.shape[:2], -1, self.width)

    def forward(self, x, rotary, mask, cache):
        q = rotate(self.q_norm(self.split(self.q_proj(x))).transpose(1, 2), rotary)
        k = rotate(self.k_norm(self.split(self.k_proj(x))).transpose(1, 2), rotary)
        v = self.split(self.v_proj(x)).transpose(1, 2)
        if cache is not None:
            k, v = cache.update(k, v, self.number)
        group = self.heads // self.key_heads
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
        mixed = functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(mixed.transpose(1, 2).flatten(2))


def rotate(x, rotary):
    """Rotates the pairs (j, j + width / 2) of x [B, heads, T, width]."""
    cosine, sine = rotary
    first, second = x.chunk(2, -1)
    return (x * cosine + torch.cat((-second, first), -1) * sine).to(x.dtype)


class Ffn(nn.Module):
    """The dense SwiGLU FFN of a layer without experts."""

    def __init__(self, config):
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x, ids, real, rows, by_prompt):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class RowState:
    """What a layer keeps of one sequence: its routing weights and the segment in progress."""

    def __init__(self):
        self.matrices = None  # gate, up and down of the FFN in use
        self.prefix = None  # PREFIX: routing weights of the first segment
        self.total = 0  # sum of the FFN inputs of the segment in progress
        self.length = 0


class ExpertMatrices(nn.Module):
    def __init__(self, *shape):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(*shape))


class Experts(nn.Module):
    def __init__(self, config, hidden):
        super().__init__()
        count, width = config.num_experts, config.hidden_size
        self.gate_proj = ExpertMatrices(count, hidden, width)
        self.up_proj = ExpertMatrices(count, hidden, width)
        self.down_proj = ExpertMatrices(count, width, hidden)


class SoftMoe(nn.Module):
    """The FFN of a layer with experts."""

    def __init__(self, config):
        super().__init__()
        self.config = config
        self.router = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        self.experts = Experts(config, config.intermediate_size)

    def forward(self, x, ids, real, rows, by_prompt):
        """x [B, T, D]; real [B, T] is False for padding; rows[b] is the state of sequence b."""
        output = torch.zeros_like(x)
        for row, state in enumerate(rows):
            if real[row].any():
                output[row, real[row]] = self.route(x[row, real[row]], state, by_prompt)
        return output

    def route(self, x, state, by_prompt):
        """Appends the tokens x [T, D] to a sequence."""
        if self.config.router == "EXPERT_CHOICE_TOKEN":
            return torch.cat([run(token, self.mix(self.decide(token))) for token in x.split(1)])
        if by_prompt:
            if state.matrices is None:
                state.matrices = self.mix(self.decide(x))
            return run(x, state.matrices)
        outputs = []
        while len(x) > 0:
            room = self.config.segment_length - state.length % self.config.segment_length
            piece, x = x[:room], x[room:]
            self.begin(piece, state)
            outputs.append(run(piece, state.matrices))
            state.total = state.total + piece.float().sum(0)
            state.length += len(piece)
        return torch.cat(outputs)

    def begin(self, piece, state):
        """Routes a segment at its first token."""
        if state.length % self.config.segment_length != 0:
            return
        if state.length == 0:
            weights = self.decide(piece)
            if self.config.first_segment == "UNIFORM":
                weights = torch.full_like(weights, 1 / len(weights))
        else:
            weights = self.decide(state.total[None] / self.config.segment_length)
            if self.config.router == "PREFIX":
                state.prefix = weights if state.prefix is None else state.prefix
                weights = state.prefix
        state.matrices = self.mix(weights)
        state.total = 0

    def decide(self, x):
        """Routing weights [E] from the mean of x [T, D]."""
        mean = x.float().mean(0)
        if self.config.router_input == "NORMALIZED_MEAN":
            mean = functional.layer_norm(mean, mean.shape)
        return functional.softmax(functional.linear(mean, self.router.weight.float()), -1)

    def mix(self, weights):
        """The matrices of the FFN for routing weights [E]: the weighted average of the experts, or,
        for expert choice, the best expert with its output scaled by its weight."""
        e = self.experts
        if self.config.router.startswith("EXPERT_CHOICE"):
            best = int(weights.argmax())
            scale = weights[best].to(e.down_proj.weight.dtype)
            return (e.gate_proj.weight[best], e.up_proj.weight[best],
                    scale * e.down_proj.weight[best])
        return tuple(torch.einsum("e,eij->ij", weights.to(m.weight.dtype), m.weight)
                     for m in (e.gate_proj, e.up_proj, e.down_proj))


class CosineGate(nn.Module):
    """Cosines of a projection of x [T, D] and a vector of each expert, over a temperature."""

    def __init__(self, config):
        super().__init__()
        count, width = config.num_experts, config.projection_width
        self.weight = nn.Parameter(torch.empty(count, width))
        self.projection = nn.Linear(config.hidden_size, width, bias=False)
        self.log_scale = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        projected = functional.linear(x, self.projection.weight.float())
        cosines = functional.linear(functional.normalize(projected, dim=-1),
                                    functional.normalize(self.weight.float(), dim=-1))
        return cosines * self.log_scale.float().exp().clamp(max=100)


class TokenChoice(nn.Module):
    """The FFN of a layer whose tokens choose their experts (router TOKEN_CHOICE)."""

    def __init__(self, config, number):
        super().__init__()
        self.config, self.number = config, number
        if config.gate in ("LINEAR", "FROZEN", "RELU"):
            self.router = nn.Linear(config.hidden_size, config.num_experts, bias=False)
        elif config.gate == "COSINE":
            self.router = CosineGate(config)
        self.experts = Experts(config, config.moe_intermediate_size)

    def forward(self, x, ids, real, rows, by_prompt):
        """x [B, T, D]; ids [B, T] of the tokens."""
        tokens = x.flatten(0, 1)
        chosen, weights = self.choose(tokens.float(), ids.flatten())
        output = torch.zeros_like(tokens)
        e = self.experts
        for expert in range(self.config.num_experts):
            token, place = (chosen == expert).nonzero(as_tuple=True)
            matrices = (m.weight[expert] for m in (e.gate_proj, e.up_proj, e.down_proj))
            weight = weights[token, place, None].to(x.dtype)
            output = output.index_add(0, token, weight * run(tokens[token], matrices))
        return output.view_as(x)

    def choose(self, x, ids):
        """The experts [T, k] of tokens x [T, D] with ids [T] and the weights of their outputs; with
        the gate RELU [T, E], where -1 stands for an expert without a positive score."""
        config, count, k = self.config, self.config.num_experts, self.config.num_experts_per_tok
        scores = self.scores(x, ids)
        if config.gate == "RELU":
            experts = torch.arange(count, device=x.device).expand_as(scores)
            return experts.masked_fill(scores <= 0, -1), scores
        ranking = scores.argsort(dim=-1, descending=config.selection != "BOTTOM",
                                 stable=True)
        first = min(k, count - k) if config.selection == "NOT_TOP" else 0
        chosen = ranking[:, first:first + k]
        if config.combine_weights == "SOFTMAX_OF_CHOSEN":
            return chosen, functional.softmax(scores.gather(1, chosen), -1)
        if config.combine_weights == "CHOSEN_OF_SOFTMAX":
            return chosen, functional.softmax(scores, -1).gather(1, chosen)
        value = 1.0 if config.combine_weights == "ONES" else 1 / k
        return chosen, torch.full_like(chosen, value, dtype=x.dtype)

    def scores(self, x, ids):
        config = self.config
        if config.gate == "HASH":
            return hash_scores(ids, self.number, config.num_experts)
        if config.gate == "RANDOM":
            if config.num_experts_per_tok < config.num_experts:
                raise ValueError("the gate RANDOM is defined for all experts together only; set "
                                 f"num_experts_per_tok to {config.num_experts}")
            return x.new_zeros(len(x), config.num_experts)
        if config.gate == "COSINE":
            return self.router(x)
        if config.router_input == "NORMALIZED_MEAN":
            x = functional.layer_norm(x, x.shape[-1:])
        if config.gate == "KEY_MEAN":
            return functional.linear(x, self.experts.gate_proj.weight.float().mean(1))
        return functional.linear(x, self.router.weight.float())


def scramble(x):
    """The output function of SplitMix64, of int64, whose products wrap like unsigned ones."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB), (31, 1)):
        x = (x ^ ((x >> shift) & ((1 << (64 - shift)) - 1))) * signed(factor)
    return x


def signed(number):
    """The signed integer with the same lowest 64 bits."""
    return (number + (1 << 63)) % (1 << 64) - (1 << 63)


def hash_scores(ids, layer, count):
    """Numbers [T, count] in [0, 1) for token ids [T], a function of layer, id and expert."""
    golden, ids = 0x9E3779B97F4A7C15, ids.long()
    layer = scramble(torch.full_like(ids, signed(layer + golden)))
    key = scramble((layer ^ ids) + signed(golden))
    experts = torch.tensor([signed(e * golden) for e in range(count)], device=ids.device)
    bits = scramble(key[:, None] + experts)
    return (((bits >> 11) & ((1 << 53) - 1)).double() * 2.0**-53).float()


def run(x, matrices):
    gate, up, down = matrices
    hidden = functional.silu(functional.linear(x, gate)) * functional.linear(x, up)
    return functional.linear(hidden, down)


class Layer(nn.Module):
    def __init__(self, config, number):
        super().__init__()
        has_experts = config.moe_layers is None or number in config.moe_layers
        self.self_attn = Attention(config, number)
        if not has_experts:
            self.mlp = Ffn(config)
        elif config.router == "TOKEN_CHOICE":
            self.mlp = TokenChoice(config, number)
        else:
            self.mlp = SoftMoe(config)
        self.input_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)
        self.post_attention_layernorm = RmsNorm(config.hidden_size, config.rms_norm_eps)


def reorder_cache(cache, beams):
    """Gives the rows of a cache, with their RowStates, to the beams that continue them."""
    type(cache).reorder_cache(cache, beams)
    cache.braid_rows = [[copy.copy(rows[i]) for i in beams.tolist()] for rows in cache.braid_rows]


class Decoder(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.embed_tokens = nn.Embedding(config.vocab_size, config.hidden_size)
        self.layers = nn.ModuleList(Layer(config, i) for i in range(config.num_hidden_layers))
        self.norm = RmsNorm(config.hidden_size, config.rms_norm_eps)


class BraidSoftMoeForCausalLM(PreTrainedModel, GenerationMixin):
    config_class = BraidSoftMoeConfig
    base_model_prefix = "model"
    _tied_weights_keys = {"lm_head.weight": "model.embed_tokens.weight"}
    _supports_sdpa = True

    def __init__(self, config):
        super().__init__(config)
        self.model = Decoder(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def _init_weights(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding, ExpertMatrices)):
            nn.init.normal_(module.weight, std=getattr(self.config, "initializer_range", 0.02))

    def get_input_embeddings(self):
        return self.model.embed_tokens

    def set_input_embeddings(self, table):
        self.model.embed_tokens = table

    def get_output_embeddings(self):
        return self.lm_head

    def set_output_embeddings(self, head):
        self.lm_head = head

    def rotary_tables(self, positions, dtype):
        """Cosines and sines [B, 1, T, width] of positions [B, T]."""
        rotary, attention = self.config.rotary, self.model.layers[0].self_attn
        frequency = rotary_frequencies(attention.width, rotary["theta"], rotary["scaling"])
        angle = positions[..., None].double() * frequency.to(positions.device)
        angle = torch.cat((angle, angle), -1)[:, None]
        return angle.cos().float(), angle.sin().float()

    def row_states(self, cache, batch):
        """The RowStates [layer][row] of a cache; new ones without a cache."""
        states = getattr(cache, "braid_rows", None)
        if states is None or cache.get_seq_length() == 0:
            states = [[RowState() for _ in range(batch)] for _ in self.model.layers]
            if cache is not None:
                cache.braid_rows = states
                cache.reorder_cache = types.MethodType(reorder_cache, cache)
        return states

    def forward(self, input_ids, attention_mask=None, past_key_values=None, labels=None, **kwargs):
        batch, length = input_ids.shape
        past = 0 if past_key_values is None else past_key_values.get_seq_length()
        if attention_mask is None:
            attention_mask = input_ids.new_ones(batch, past + length)
        real = attention_mask[:, -(past + length):].bool()  # [B, past + T]
        positions = (real.long().cumsum(1) - 1).clamp(min=0)[:, past:]
        causal = torch.ones(length, past + length, dtype=torch.bool, device=real.device).tril(past)
        # A row of padding sees itself, so that its softmax is defined.
        own = torch.eye(past + length, dtype=torch.bool, device=real.device)[past:]
        mask = (causal & real[:, None] | own)[:, None]
        rows = self.row_states(past_key_values, batch)
        by_prompt = past_key_values is not None and self.config.generation_routing == "prompt"
        h = self.model.embed_tokens(input_ids)
        rotary = self.rotary_tables(positions, h.dtype)
        for number, layer in enumerate(self.model.layers):
            x = layer.input_layernorm(h)
            h = h + layer.self_attn(x, rotary, mask, past_key_values)
            x = layer.post_attention_layernorm(h)
            h = h + layer.mlp(x, input_ids, real[:, past:], rows[number], by_prompt)
        logits = self.lm_head(self.model.norm(h))
        cap = self.config.logit_soft_cap
        if cap:
            logits = torch.tanh(logits / cap) * cap
        loss = None
        if labels is not None:
            loss = functional.cross_entropy(logits[:, :-1].flatten(0, 1).float(),
                                            labels[:, 1:].flatten())
        return CausalLMOutputWithPast(loss=loss, logits=logits, past_key_values=past_key_values)
