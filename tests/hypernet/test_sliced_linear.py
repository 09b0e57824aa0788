"""A sliced linear layer equals slices of the whole output."""

from unittest import mock

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lgx.hypernet.low_rank_decoder import OutputSlice, sliced_linear


@given(
    out=st.integers(1, 40),
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=5),
    blocks=st.integers(1, 6),
)
@settings(max_examples=80)
def test_slices_and_gradients_equal_those_of_the_whole_output(out, spans, blocks):
    torch.manual_seed(out)
    layer = nn.Linear(3, out).double()
    length = max(-(-(start + count) // out) for start, count in spans)
    firsts = np.cumsum([0, *range(1, len(spans) + 1)]).tolist()
    inputs = torch.randn(firsts[-1], length, 3).double().requires_grad_()
    wanted = [
        OutputSlice(slice(first, last), start, start + count)
        for first, last, (start, count) in zip(firsts, firsts[1:], spans, strict=False)
    ]
    wanted += [OutputSlice(wanted[0].nodes, 0, 1)] * 2  # one input for several slices, and an unused slice
    whole = [layer(inputs).flatten(1)[nodes, start:stop] for nodes, start, stop in wanted]
    with mock.patch("lgx.hypernet.low_rank_decoder.BLOCKS", blocks):
        read = sliced_linear(layer, inputs, wanted)
    torch.testing.assert_close(read, whole)
    sources = (layer.weight, layer.bias, inputs)
    torch.testing.assert_close(
        *(torch.autograd.grad(sum(out.sin().sum() for out in outs[:-1]), sources) for outs in (read, whole))
    )
