"""Characteristics of parameters, compared with hand computations."""

import pytest
import torch
from safetensors.torch import save_file

from experiments.analyze.parameters import compare_parameters, read_parameters, statistics_of
from lgx.errors import UserError


def vector(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_characteristics_are_those_computed_by_hand():
    start, trained = vector(3, 0, 0, 4), vector(0, 0.005, 0, 4)
    found = statistics_of(start, [trained], 0.01)
    assert found == (0.5, 0.75, pytest.approx((3**2 + 0.005**2) ** 0.5 / 5), None)
    assert statistics_of(start, [trained], 0.001).sparsity_trained == 0.5
    one, other = vector(1, 0), vector(0, 2)
    assert statistics_of(one, [one, other], 0.01).diversity == pytest.approx(1)
    assert statistics_of(one, [one, one], 0.01).diversity == pytest.approx(0)
    assert statistics_of(one, [one, one, other], 0.01).diversity == pytest.approx(2 / 3)


def test_batch_norm_statistics_are_not_counted_as_parameters(tmp_path):
    norm = torch.nn.BatchNorm2d(3)
    save_file(norm.state_dict(), tmp_path / "norm.safetensors")
    assert set(read_parameters(str(tmp_path / "norm.safetensors"))) == {"weight", "bias"}
    save_file({"weight": torch.ones(3)}, tmp_path / "other.safetensors")
    with pytest.raises(UserError, match="of different architectures: they differ in bias"):
        compare_parameters(str(tmp_path / "norm.safetensors"), [str(tmp_path / "other.safetensors")], 0.01)
