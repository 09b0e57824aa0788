"""A sliced linear layer equals slices of the whole output."""

from unittest import mock

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from lgx.hypernet.low_rank_decoder import OutputSlice, sliced_linear


@given(
    out=st.integers(1, 40),
    spans=st.lists(st.tuples(st.integers(0, 50), st.integers(1, 90)), min_size=1, max_size=5),
    least=st.integers(1, 50),
)
@settings(max_examples=80)
def test_slices_and_gradients_equal_those_of_the_whole_output(out, spans, least):
    torch.manual_seed(out)
    layer = nn.Linear(3, out).double()
    inputs = torch.randn(sum(len(spans) * -(-(start + count) // out) for start, count in spans), 3).double()
    inputs.requires_grad_()
    wanted = []
    for n, (start, count) in enumerate(spans, start=1):
        rows = torch.randint(len(inputs), (n, -(-(start + count) // out)))
        wanted.append((rows, start, start + count))
    wanted += [(wanted[0][0], 0, 1)] * 2  # one input for several slices, and an unused slice
    whole = [layer(inputs[rows]).flatten(1)[:, start:stop] for rows, start, stop in wanted]
    with mock.patch("lgx.hypernet.low_rank_decoder.MIN_BLOCK_SIZE", least):
        read = sliced_linear(layer, inputs, [OutputSlice(rows.numpy(), *span) for rows, *span in wanted])
    torch.testing.assert_close(read, whole)
    sources = (layer.weight, layer.bias, inputs)
    torch.testing.assert_close(
        *(torch.autograd.grad(sum(out.sin().sum() for out in outs[:-1]), sources) for outs in (read, whole))
    )
