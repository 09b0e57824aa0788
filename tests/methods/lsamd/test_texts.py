"""Selections on sets of texts: routing of decoders and encoders, and a run with its descendant."""

import pytest
import torch
from torch import nn

from lgx.architectures import parse_for
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.core.task import Task
from lgx.methods.lsamd.selection import SelectionRun, extract_learngene
from lgx.methods.lsamd.super_ancestor import SuperAncestor, without_head
from tests.methods.test_learngenes_on_texts import ARCHS, write_ancestor
from tests.support.command_line import arguments, lgx, ok
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


def test_layers_of_a_language_model_that_text_sets_share_start_a_deeper_classifier(text_root, tmp_path):
    path, architecture, network = write_ancestor("llama", "language", tmp_path)
    base = [w for w in arguments("fit", "LSAMD", text_root, tmp_path) if not w.startswith(("--data", "--model.arch"))]
    sizes = ["--data.max_len=16", f"--data.vocab_size={SIZE}", "--data.batch_size=8", f"--data.root={text_root}"]
    options = [f"--model.arch={ARCHS['llama']}", f"--model.ancestor={path}", "--model.threshold=0", "--name=texts"]
    ok(lgx(*base, "--data=MultiText", "--data.tasks=[cola,rte]", *sizes, *options, "--data.steps_per_epoch=4"))
    run = SelectionRun.load(tmp_path / "test/texts/seed0")
    assert list(run.selection.paths) == ["cola", "rte"]
    assert run.state["branches.1.head.weight"].shape == (2, architecture.embed_dim)
    state = dict(run.state)
    for number in range(2):
        state[f"branches.{number}.base_share"] = torch.tensor([0.0, 1.0, 0.0, 1.0])
    file = tmp_path / "shared.learngene.safetensors"
    extract_learngene([SelectionRun(run.about, state)]).save(file)
    assert Learngene.load(file).selection["layers"] == [1, 3]
    size = f"depth=3,embed_dim={architecture.embed_dim},num_heads={architecture.num_heads}"
    ok(lgx("init", "--source", file, "--head", "2", "--arch", size, "--out", tmp_path / "start"))
    started = load_pretrained(str(tmp_path / "start"))
    assert started.architecture.kind == "text"
    for layer, source in enumerate((1, 3, 3)):
        for part, tensor in architecture.blocks(network)[source].state_dict().items():
            assert torch.equal(started.tensors[f"{architecture.layers}{layer}.{part}"], tensor)
    assert started.model(texts(5, 9, vocab_size=SIZE)).shape == (2, 2)
