"""A hypernetwork predicts all parameters of any architecture; what is larger than ``max_shape`` is tiled."""

import pytest
import torch

from lgx.architectures import HFArchitecture, ViTArchitecture, architecture_set
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, computational_graph, read_config
from lgx.hypernet.functional_forward import meta_batch_loss
from lgx.hypernet.low_rank_tensor import LowRankTensor
from tests.support.gpt2 import LLAMA
from tests.support.hypernet import TINY, VIT


@pytest.mark.parametrize("count", [2, pytest.param(20, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("decoder", "layout"), [("conv", "official"), ("low_rank", "official"), ("low_rank", "aligned")]
)
def test_random_architectures_have_finite_parameters_of_the_right_shapes(decoder, layout, count):
    torch.manual_seed(0)
    small = ViTArchitecture(img_size=16, patch_size=4, num_classes=7)
    texts = HFArchitecture(max_len=16, vocab_size=300, num_classes=7)
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, decoder=decoder, layout=layout)).eval()
    drawn = [a for name in ("ViTs-1K", "ViTs+-1K") for a in architecture_set(name, count, small)]
    drawn += architecture_set("GPTs-1K", count, texts)
    drawn += architecture_set("LLAMAs-1K", count, texts.replace(heads_per_group=2, config=LLAMA.config))
    with torch.no_grad():
        for architecture in dict.fromkeys(drawn):
            expected = {k: v.shape for k, v in architecture.build("meta").state_dict().items()}
            dense, factored = hypernet.predict(architecture), hypernet.predict(architecture, dense=False)
            assert {k: v.shape for k, v in dense.items()} == expected
            for name, tensor in dense.items():
                assert tensor.isfinite().all(), name
                other = factored[name]
                other = other.to_dense() if isinstance(other, LowRankTensor) else other
                torch.testing.assert_close(tensor, other, rtol=1e-4, atol=1e-6)


def test_aligned_rows_have_the_same_role_at_every_width():
    torch.manual_seed(0)
    narrow, wide = (ViTArchitecture(1, width, 2, patch_size=4, img_size=16, num_classes=7) for width in (16, 24))
    hypernet = Hypernet(HypernetConfig(**TINY, num_classes=7, layout="aligned"))
    with torch.no_grad():
        for parameter in hypernet.decoder.fc3.parameters():
            parameter.zero_()  # predictions depend on the bases alone
        weights = [hypernet.predict(vit)["blocks.0.attn.qkv.weight"] for vit in (narrow, wide)]
    small, large = (w.unflatten(0, (3, -1)) * w.shape[1] ** 0.5 for w in weights)
    torch.testing.assert_close(small, large[:, :16, :16])


def test_task_embeddings_are_checked_and_an_untrained_film_changes_nothing():
    torch.manual_seed(0)
    plain = Hypernet(HypernetConfig(**TINY, num_classes=7)).eval()
    aware = Hypernet(HypernetConfig(**TINY, num_classes=7, task_width=3)).eval()
    missing, unexpected = aware.load_state_dict(plain.state_dict(), strict=False)
    assert missing
    assert all(".film." in name for name in missing)
    assert not unexpected
    with torch.no_grad():
        expected, found = plain.predict(VIT), aware.predict(VIT, torch.randn(3))
    assert all(torch.equal(expected[name], tensor) for name, tensor in found.items())
    for hypernet, task in ((plain, torch.zeros(3)), (aware, None), (aware, torch.zeros(4))):
        with pytest.raises(UserError, match="task embedding"):
            hypernet.predict(VIT, task)


def test_the_class_tokens_position_is_zero_and_files_of_lgx_0_3_say_so():
    hypernet = Hypernet(HypernetConfig(**TINY))
    first, second = hypernet.predict(VIT), hypernet.predict(VIT)
    assert first["pos_embed"][0, 0].count_nonzero() == 0
    torch.testing.assert_close(first, second, rtol=0, atol=0)
    assert read_config({**hypernet.config.to_dict(), "class_position_std": 0.0}, "file") == hypernet.config
    with pytest.raises(UserError, match="class_position_std"):
        read_config({**hypernet.config.to_dict(), "class_position_std": 0.02}, "file")


@pytest.mark.parametrize("largest", [8, 48])
def test_the_convolutional_decoder_tiles_heads_with_more_classes(largest):
    hypernet = Hypernet(HypernetConfig(**{**TINY, "max_shape": (largest, 48, 4, 4)}, num_classes=12, decoder="conv"))
    with torch.no_grad():
        exact, more = (hypernet.predict(VIT.replace(num_classes=classes)) for classes in (12, 30))
    for name in ("head.weight", "head.bias"):
        assert len(exact[name].unique(dim=0)) == 12
        torch.testing.assert_close(more[name], more[name][:12].repeat(3, *[1] * (more[name].ndim - 1))[:30])
        assert len(more[name].unique(dim=0)) == 12


def test_what_a_configuration_cannot_predict_is_refused():
    for options, architecture, words in (
        ({"max_size": 64, "num_classes": 7}, VIT, "exceeds max_size 64"),
        ({}, VIT.replace(num_classes=0), "no class head"),
    ):
        with pytest.raises(UserError, match=words):
            Hypernet(HypernetConfig(**{**TINY, **options})).predict(architecture)


def test_longer_paths_than_those_of_ghn3_count_as_missing():
    graph = computational_graph(VIT.replace(depth=40))
    assert graph.lengths.max() == 50
    with torch.no_grad():
        assert Hypernet(HypernetConfig(**TINY)).encode([graph]).isfinite().all()


def test_losses_and_norms_are_means_over_the_architectures():
    torch.manual_seed(0)
    hypernet, images = Hypernet(HypernetConfig(**TINY)).double(), torch.randn(3, 3, 16, 16).double()
    both = [VIT, VIT.replace(depth=3, embed_dim=60, num_heads=4)]

    def losses(architectures):
        return torch.stack(meta_batch_loss(hypernet, architectures, images, lambda logits, _: logits.square().mean()))

    torch.testing.assert_close(losses(both), (losses(both[:1]) + losses(both[1:])) / 2)


@pytest.mark.parametrize(("inputs", "factored"), [(0, 4), (10**6, 2), (None, 0)])
def test_factors_are_multiplied_if_that_is_faster_for_so_many_inputs(inputs, factored):
    hypernet = Hypernet(HypernetConfig(**TINY | {"rank": 14}, num_classes=7))
    graph = computational_graph(VIT)
    (parameters,) = hypernet.predict_graphs([graph], inputs=inputs).by_name(1)
    for name, dense in hypernet.predict_graphs([graph]).by_name(1)[0].items():
        torch.testing.assert_close(parameters[name] + 0, dense)
    names = [name for name, weight in parameters.items() if isinstance(weight, LowRankTensor)]
    assert len([name for name in names if "blocks.0" in name]) == factored
