"""Operations are counted alike by every torch."""

import torch
from torch.nn.functional import scaled_dot_product_attention
from torch.utils.flop_counter import flop_registry

from lgx.core.flops import flop_counter


def test_attention_on_a_cpu_is_counted_where_torch_has_no_formula(monkeypatch):
    for operator in [*flop_registry]:
        if "for_cpu" in str(operator):
            monkeypatch.delitem(flop_registry, operator)
    query = torch.randn(2, 3, 8, 4, requires_grad=True)
    with flop_counter() as counter:
        out = scaled_dot_product_attention(query, query, query)
        forward = counter.get_total_flops()
        out.sum().backward()
    product = 2 * 2 * 3 * 8 * 8 * 4
    assert (forward, counter.get_total_flops()) == (2 * product, 7 * product)
