"""Optimizer groups."""

from lgx.architectures import GPT2Architecture, ViTArchitecture
from lgx.components.optim import parameter_groups


def test_embeddings_have_no_weight_decay():
    decayed, kept = parameter_groups(GPT2Architecture(1, 8, 2, max_len=5, vocab_size=7).build("meta"))
    if "weight_decay" in decayed:
        decayed, kept = kept, decayed
    shapes = {tuple(p.shape) for p in kept["params"]}
    assert {(7, 8), (5, 8)} <= shapes
    assert not {(7, 8), (5, 8)} & {tuple(p.shape) for p in decayed["params"]}


def rates_by_layer(network, layer_decay=0.5):
    names = {id(parameter): name for name, parameter in network.named_parameters()}
    return {
        names[id(p)]: group["lr_scale"] for group in parameter_groups(network, layer_decay) for p in group["params"]
    }


def test_layers_of_gpt2_have_the_rates_of_the_layers_of_a_vit():
    text = rates_by_layer(GPT2Architecture(3, 8, 2, max_len=5, vocab_size=7).build("meta"))
    image = rates_by_layer(ViTArchitecture(3, 8, 2, img_size=8, patch_size=4).build("meta"))
    same = {
        "transformer.wte": "patch_embed",
        "transformer.wpe": "pos_embed",
        "transformer.ln_f": "norm",
        "score": "head",
    }
    for start, other in (same | {f"transformer.h.{layer}.": f"blocks.{layer}." for layer in range(3)}).items():
        rates = [{rate for name, rate in rates.items() if name.startswith(begin)}
                 for rates, begin in ((text, start), (image, other))]  # fmt: skip
        assert rates[0] == rates[1], start
        assert len(rates[0]) == 1
    assert len({*text.values()}) == 5
