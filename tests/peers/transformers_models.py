#!/usr/bin/env python3
"""Compares models that braid exported, as transformers runs them, with braid.

    BRAID_CASES=DIR build/tests/inference_tests --gtest_filter='ReferenceModels*Logits'
    tests/peers/transformers_models.py DIR/*

Each case has export/, tokens.npy and logits.npy (reference_models.py describes them); greedy.npy,
if it exists, holds tokens that braid generated greedily after the first five. Needs torch and
transformers (4.50 or newer).
"""
import pathlib
import sys

import numpy
import torch
import transformers

PROMPT = 5
TOLERANCE = 1e-4


def worst_logit(model, case):
    tokens = torch.from_numpy(numpy.load(case / "tokens.npy").astype(numpy.int64))
    ours = numpy.load(case / "logits.npy")
    with torch.no_grad():
        theirs = model(tokens).logits.numpy()[:, -ours.shape[1]:]
    return numpy.abs(theirs - ours).max()


def same_greedy(model, case):
    if not (case / "greedy.npy").exists():
        return True
    ours = numpy.load(case / "greedy.npy").astype(numpy.int64)
    prompt = torch.from_numpy(ours[:, :PROMPT])
    theirs = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=False,
                            max_new_tokens=ours.shape[1] - PROMPT, eos_token_id=None)
    # The second row is padded on the left, which must change nothing.
    padded = torch.cat((torch.cat((torch.zeros_like(prompt), prompt), 1),
                        torch.cat((prompt, prompt), 1)))
    mask = torch.ones_like(padded)
    mask[0, :PROMPT] = 0
    batch = model.generate(padded, attention_mask=mask, do_sample=False, eos_token_id=None,
                           max_new_tokens=ours.shape[1] - PROMPT)
    return (numpy.array_equal(theirs.numpy(), ours)
            and numpy.array_equal(batch[:1, PROMPT:].numpy(), ours))


def same_by_segment(model):
    """Whether decoding with a cache, also with beams, gives the tokens of whole sequences."""
    if model.config.model_type != "braid_soft_moe":
        return True
    length = model.config.segment_length
    model.config.generation_routing = "segment"
    tokens = model.generate(torch.arange(length + 1)[None], do_sample=False, eos_token_id=None,
                            max_new_tokens=2 * length)
    beams = [model.generate(torch.arange(length + 1)[None], do_sample=False, eos_token_id=None,
                            num_beams=4, max_new_tokens=2 * length, use_cache=cached)
             for cached in (True, False)]
    model.config.generation_routing = "prompt"
    with torch.no_grad():
        likely = model(tokens).logits.argmax(-1)
    return torch.equal(likely[:, length:-1], tokens[:, length + 1:]) and torch.equal(*beams)


def compare(case):
    # Loading resolves every tensor by name; a missing or unexpected one is an error.
    model, loading = transformers.AutoModelForCausalLM.from_pretrained(
        case / "export", trust_remote_code=True, dtype=torch.float32, output_loading_info=True)
    complete = not any(loading[kind] for kind in ("missing_keys", "unexpected_keys"))
    worst = worst_logit(model.eval(), case)
    greedy = same_greedy(model, case) and same_by_segment(model)
    print(f"{case.name}: {type(model).__name__}, largest difference {worst:.1e}, "
          f"{'same' if greedy else 'OTHER'} greedy tokens{'' if complete else ', ' + str(loading)}")
    return worst <= TOLERANCE and greedy and complete


if __name__ == "__main__":
    results = [compare(pathlib.Path(name)) for name in sys.argv[1:]]
    sys.exit(0 if results and all(results) else 1)
