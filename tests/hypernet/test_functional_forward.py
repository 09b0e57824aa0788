"""Forward passes with predicted parameters equal timm's, dense or low-rank."""

import pytest
import torch
from torch.nn import functional as F

from lgx.hypernet import computational_graph
from lgx.hypernet.functional_forward import functional_forward, functional_forward_with_features
from lgx.hypernet.hypernet import add_class_token
from lgx.hypernet.low_rank_tensor import LowRankTensor
from tests.support.command_line import DEVICES
from tests.support.gpt2 import GPT2, LLAMA, hypernet, texts
from tests.support.hypernet import VIT


def inputs_of(architecture, dtype=torch.float):
    """Images or texts."""
    torch.manual_seed(1)
    return texts(5, 12, 7) if architecture.reads_text else torch.randn(3, 3, 16, 16, dtype=dtype)


@pytest.mark.parametrize(
    "architecture",
    [
        VIT,
        VIT.replace(depth=1, num_classes=1),
        VIT.replace(depth=3, stages=(1, 2), num_classes=100),
        VIT.replace(kind="segmentation"),
    ],
    ids=["two-layers", "one-layer", "stages", "segmentation"],
)
def test_values_and_gradients_equal_those_of_timms_model(architecture):
    torch.manual_seed(0)
    model = architecture.build().double()
    for parameter in model.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    images = torch.randn(2, 3, 16, 16, dtype=torch.double)
    results = []
    for logits in (model(images), functional_forward(architecture, dict(model.named_parameters()), images)):
        results.append((logits, *torch.autograd.grad(logits.square().sum(), list(model.parameters()))))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("decoder", ["low_rank", "conv"])
@pytest.mark.parametrize("architecture", [VIT, GPT2], ids=["vit", "gpt2"])
def test_dense_predictions_load_into_the_librarys_model(architecture, decoder):
    with torch.no_grad():
        parameters = hypernet(decoder=decoder).eval().predict(architecture)
        model = architecture.build().eval()
        model.load_state_dict(parameters)
        inputs = inputs_of(architecture)
        logits, features = functional_forward_with_features(architecture, parameters, inputs)
    assert torch.equal(logits, functional_forward(architecture, parameters, inputs))
    torch.testing.assert_close(model(inputs), logits)
    head = architecture.head
    torch.testing.assert_close(logits, F.linear(features, parameters[f"{head}weight"], parameters.get(f"{head}bias")))
    if architecture is VIT:
        torch.testing.assert_close(features, model.forward_features(inputs)[:, 0])


LAYOUTS = [(VIT, "official", None), (VIT, "aligned", None), (GPT2, "official", None), (GPT2, "aligned", None),
           (GPT2, "aligned", 101), (LLAMA, "official", None), (LLAMA, "aligned", 101)]  # fmt: skip


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("architecture", "layout", "vocab_size"), LAYOUTS)
def test_low_rank_parameters_give_the_values_norms_and_gradients_of_dense_ones(
    architecture, layout, vocab_size, device
):
    net = hypernet(layout=layout, vocab_size=vocab_size).to(device, torch.double)
    inputs, results = inputs_of(architecture, torch.double).to(device), []
    for dense in (True, False):
        net.zero_grad()
        joined = net.predict_joined([computational_graph(architecture, net.config.convention)])
        (parameters,) = joined.by_name(1, None if dense else 0)
        add_class_token(architecture, parameters)
        assert any(isinstance(p, LowRankTensor) for p in parameters.values()) is not dense
        logits = functional_forward(architecture, parameters, inputs)
        norms = sum(p.norm() for p in parameters.values()) if dense else joined.sum_of_norms()
        (logits.square().sum() + norms).backward()
        results.append([logits.detach(), *(p.grad for p in net.parameters() if p.grad is not None)])
    for dense, factored in zip(*results, strict=True):
        torch.testing.assert_close(factored, dense, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("architecture", [VIT, GPT2], ids=["vit", "gpt2"])
def test_autocast_agrees_with_full_precision(architecture, dtype, device):
    options = {} if architecture is VIT else {"layout": "aligned", "vocab_size": 101}
    net, inputs, results = hypernet(**options).to(device), inputs_of(architecture).to(device), []
    for low, dense in ((True, False), (False, True)):
        with torch.autocast(device, dtype, enabled=low):
            logits = functional_forward(architecture, net.predict(architecture, dense=dense), inputs).float()
        gradients = torch.autograd.grad(logits.square().sum(), list(net.parameters()), materialize_grads=True)
        results.append((logits, torch.cat([gradient.flatten() for gradient in gradients])))
    (logits, gradient), (exact, exact_gradient) = results
    torch.testing.assert_close(logits, exact, rtol=0.1, atol=0.05)
    assert F.cosine_similarity(gradient, exact_gradient, dim=0) > 0.99
