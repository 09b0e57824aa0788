"""Characteristics of parameters, compared with hand computations."""

import pytest
import torch
from safetensors.torch import save_file

from lgx.errors import UserError
from lgx.results.parameters import change_magnitude, check_alike, diversity, read_parameters, sparsity


def test_characteristics_are_those_computed_by_hand():
    start = {"a": torch.tensor([3.0, 0.0]), "b": torch.tensor([[0.0], [4.0]])}
    trained = {"b": torch.tensor([[0.0], [4.0]]), "a": torch.tensor([0.0, 0.005])}
    assert sparsity(start, 0.01) == 0.5
    assert sparsity(trained, 0.01) == 0.75
    assert sparsity(trained, 0.001) == 0.5
    assert change_magnitude(start, trained) == pytest.approx((3**2 + 0.005**2) ** 0.5 / 5)
    one, other = {"a": torch.tensor([1.0, 0.0])}, {"a": torch.tensor([0.0, 2.0])}
    assert diversity([one, other]) == pytest.approx(1)
    assert diversity([one, one]) == pytest.approx(0)
    assert diversity([one, one, other]) == pytest.approx(2 / 3)


def test_batch_norm_statistics_are_not_counted_as_parameters(tmp_path):
    norm = torch.nn.BatchNorm2d(3)
    save_file(norm.state_dict(), tmp_path / "norm.safetensors")
    assert set(read_parameters(str(tmp_path / "norm.safetensors"))) == {"weight", "bias"}
    with pytest.raises(UserError, match=r"b is missing in the first and \(3,\) in the second"):
        check_alike({"x": {"a": torch.ones(2)}, "y": {"a": torch.ones(2), "b": torch.ones(3)}})
