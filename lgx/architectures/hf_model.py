"""The networks behind :class:`~lgx.architectures.hf.HFArchitecture`; imports transformers."""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import WeightRenaming, rename_source_key
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from lgx.architectures.hf_config import network_class
from lgx.errors import UserError

_ATTENTION = "lgx_sdpa"


def _mask(**arguments: Any) -> Tensor | None:
    """The mask of an attention; None for causal attention that reaches all earlier tokens.

    transformers' own function reads the values of padding masks to find out whether it needs a mask. This would stop a
    GPU in every step, and fails on the meta device. Texts are padded on the right, so that no token of a causal network
    attends to padding.
    """
    window = arguments.get("local_size")
    if arguments.get("allow_is_causal_skip") and (window is None or arguments["kv_length"] <= window):
        return None
    always = {"allow_is_causal_skip": False, "allow_is_bidirectional_skip": False}
    mask: Tensor | None = sdpa_mask(**{**arguments, **always})
    return mask


AttentionInterface.register(_ATTENTION, sdpa_attention_forward)
AttentionMaskInterface.register(_ATTENTION, _mask)


class TextNetwork:
    """What lgx adds to a network of transformers: token ids (B, N) are the only input, logits the only output.

    A classifier gives (B, K), a language model (B, N, V).
    """

    def forward(self: Any, ids: Tensor) -> Tensor:
        """Logits (B, K), or (B, N, V), of token ids (B, N), int64, padded on the right."""
        logits: Tensor = super().forward(input_ids=ids, attention_mask=self._attended(ids)).logits  # type: ignore[misc]
        return logits

    def tokens(self: Any, ids: Tensor) -> Tensor:
        """Features of all tokens before the head, (B, N, D); features of padding are meaningless."""
        features: Tensor = self.base_model(input_ids=ids, attention_mask=self._attended(ids))[0]
        return features

    def tokens_and_logits(self: Any, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Features of all tokens before the head, (B, N, D), and logits."""
        found: list[Tensor] = []
        with self.base_model.register_forward_hook(lambda _module, _inputs, output: found.append(output[0])):
            logits = self(ids)
        return found[0], logits

    def features(self: Any, ids: Tensor) -> Tensor:
        """Features of the token that the head of a classifier reads, (B, D): the last one, or the first of encoders."""
        tokens = self.tokens(ids)
        if not self.is_causal_network:
            first: Tensor = tokens[:, 0]
            return first
        last: Tensor = tokens[torch.arange(len(ids), device=ids.device), self._real(ids).sum(dim=1).clamp(min=1) - 1]
        return last

    def mean_features(self: Any, ids: Tensor) -> Tensor:
        """Mean features of each text's tokens, (B, D), without the padding."""
        real = self._real(ids).unsqueeze(-1)
        mean: Tensor = (self.tokens(ids) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return mean

    def _real(self: Any, ids: Tensor) -> Tensor:
        """1 for tokens, 0 for padding, (B, N)."""
        real: Tensor = (ids != self.config.pad_token_id).long()
        return real

    def _attended(self: Any, ids: Tensor) -> Tensor:
        """1 for tokens that others see, (B, N); in a language model all, whose padding may be the end of a document."""
        if ids.shape[1] > self.most_tokens:
            raise UserError(
                f"a text has {ids.shape[1]} tokens, but the architecture reads at most {self.most_tokens}; "
                f"lower data.max_len or choose an architecture with a larger max_len"
            )
        return torch.ones_like(ids) if self.is_language_model else self._real(ids)

    @property
    def num_features(self: Any) -> int:
        """Width D."""
        return int(self.config.hidden_size)

    def no_weight_decay(self: Any) -> set[str]:
        """Names of the embeddings, which are excluded from weight decay."""
        return {f"{name}.weight" for name, module in self.named_modules() if isinstance(module, nn.Embedding)}

    def group_matcher(self: Any, coarse: bool = False) -> dict[str, Any]:
        """Groups of parameters by layer, as timm's ViTs give them; a norm after the layers belongs to the last one."""
        names = [name for name, _ in self.named_parameters()]
        first = next(place for place, name in enumerate(names) if name.startswith(self.layer_prefix))
        stem = "|".join(map(re.escape, names[:first]))
        last = (rf"^{re.escape(self.base_model_prefix)}\.", (99999,))  # 99999: the group before
        return {"stem": f"^(?:{stem})$", "blocks": [(rf"^{re.escape(self.layer_prefix)}(\d+)", None), last]}

    @classmethod
    def is_custom_code(cls) -> bool:
        """No: the rules of transformers for names in files hold for this class, too."""
        return False

    def own_names(self: Any, names: Iterable[str]) -> dict[str, str]:
        """The parameter of each name in a file: files have other names for some types and of older versions."""
        renamings = [rule for rule in get_model_conversion_mapping(self) if isinstance(rule, WeightRenaming)]
        known = dict(self.named_parameters())
        return {name: rename_source_key(name, renamings, [], self.base_model_prefix, known)[0] for name in names}

    def init_non_persistent_buffers(self: Any) -> None:
        """Compute the buffers that no file stores, such as the angles of rotary positions."""
        with _empty_parameters():
            twin = dict(type(self)(self.config).named_buffers())
        for name, buffer in self.named_buffers():
            buffer.copy_(twin[name])


@contextmanager
def _empty_parameters() -> Iterator[None]:
    """Networks that are built in the block have parameters without memory, but buffers with values."""
    register = nn.Module.register_parameter

    def empty(module: nn.Module, name: str, parameter: nn.Parameter | None) -> None:
        meta = None if parameter is None else nn.Parameter(parameter.to("meta"), parameter.requires_grad)
        register(module, name, meta)

    nn.Module.register_parameter = empty  # type: ignore[method-assign, assignment]
    try:
        yield
    finally:
        nn.Module.register_parameter = register  # type: ignore[method-assign]


@cache
def _class(base: Any) -> Any:
    """The class of a network: that of transformers, whose name a saved configuration repeats, with lgx's interface."""
    return type(base.__name__, (TextNetwork, base), {"__module__": __name__})


def text_network(config: PretrainedConfig, kind: str, is_causal: bool, layer_prefix: str, most_tokens: int) -> Any:
    """Build a network with the random initialization of transformers.

    Args:
        config: Its configuration.
        kind: ``language`` or ``text``.
        is_causal: Whether a token sees only earlier tokens.
        layer_prefix: Prefix of the names of a layer's parameters, before its number.
        most_tokens: Longest text.
    """
    base = network_class(config, kind)
    config._attn_implementation = _ATTENTION if base._supports_sdpa else "eager"
    network = _class(base)(config)
    network.is_causal_network, network.layer_prefix, network.most_tokens = is_causal, layer_prefix, most_tokens
    network.is_language_model = kind == "language"
    return network
