"""Selections on sets of texts: routing of decoders and encoders, and a run with its descendant."""

import pytest
import torch
from torch import nn

from lgx.architectures import parse_for
from lgx.core.task import Task
from lgx.methods.lsamd.super_ancestor import SuperAncestor, without_head
from tests.methods.test_learngenes_on_texts import ARCHS
from tests.support.fake_text import SIZE
from tests.support.gpt2 import texts

TASKS = [Task(name, 2 + i, "text", max_len=16, vocab_size=SIZE) for i, name in enumerate("ab")]


@pytest.mark.parametrize(("name", "routing"), [("gpt2", "image"), ("llama", "batch"), ("bert", "image")])
def test_each_text_gets_the_logits_of_a_network_with_the_blocks_of_its_path(name, routing):
    architecture = parse_for(ARCHS[name], "text", 2)
    base = without_head(architecture.build(), architecture)
    net = SuperAncestor(base, TASKS, routing, "compared", "mean", layers=architecture.layers).eval()
    for key, parameter in net.named_parameters():
        nn.init.normal_(parameter, std=2.0 if "adapters" in key else 0.3)
    inputs, branch = texts(10, 7, 2, 9, 5, vocab_size=SIZE), net.branches[1]
    logits, probabilities = net(inputs, 1)
    prefers = probabilities >= 0.5
    if routing == "batch":
        prefers = (2 * prefers.sum(1, keepdim=True) >= len(inputs)).expand_as(prefers)
    assert {True, False} == set(prefers.flatten().tolist())
    adapter, seen = branch.adapters[0], []
    first = net.blocks[0].register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    plain = architecture.build().eval()
    plain.load_state_dict(base.state_dict(), strict=False)
    for text in range(len(inputs)):
        for layer, is_base in enumerate(prefers[:, text]):
            block = (net if is_base else branch).blocks[layer]
            architecture.blocks(plain)[layer].load_state_dict(block.state_dict())
        with torch.no_grad():
            torch.testing.assert_close(
                branch.head(plain.features(inputs[text : text + 1])), logits[text : text + 1], rtol=1e-3, atol=1e-4
            )
    base.features(inputs)
    first.remove()
    for text, (tokens, p) in enumerate(zip(seen[0], probabilities[0], strict=True)):
        mean = tokens[inputs[text, 1] == 1].mean(0)
        scores = adapter.score(mean) + nn.functional.softplus(adapter.spread(mean))
        torch.testing.assert_close(scores.softmax(0)[1], p, rtol=1e-4, atol=1e-5)
    assert all("forward" not in vars(block) for block in net.blocks)
