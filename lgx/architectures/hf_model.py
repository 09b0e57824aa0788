"""The networks behind :class:`~lgx.architectures.hf.HFArchitecture`; imports transformers."""

import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from lgx.architectures.hf_config import network_class
from lgx.core.task import Pooling
from lgx.errors import UserError

_ATTENTION = "lgx_sdpa"
warnings.filterwarnings("ignore", message="Initializing zero-element tensors")  # heads without classes


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
    """What lgx adds to a network of transformers: texts (B, 3, N) are the only input, logits the only output.

    The rows of a text are token ids, attention mask and token types (:class:`~lgx.core.batch.Batch`). A classifier
    gives (B, K), a language model (B, N, V), an encoder without a head the features that it would read, (B, D).

    Attributes:
        pooling: How the vector of a text is made of its tokens.
    """

    pooling: Pooling = "mean"

    def forward(self: Any, inputs: Tensor) -> Tensor:
        """Logits (B, K), or (B, N, V), of texts (B, 3, N), int64."""
        if self.is_language_model or (self.num_labels and not self.reads_last_token):
            logits: Tensor = super().forward(**self._arguments(inputs)).logits  # type: ignore[misc]
            return logits
        # transformers' own classifiers of last tokens find padding by its id.
        features: Tensor = self.features(inputs)
        return self.get_submodule(self.head_name)(features) if self.num_labels else features

    def tokens(self: Any, inputs: Tensor) -> Tensor:
        """Features of all tokens before the head, (B, N, D); features of padding are meaningless."""
        features: Tensor = self.base_model(**self._arguments(inputs))[0]
        return features

    def tokens_and_logits(self: Any, inputs: Tensor) -> tuple[Tensor, Tensor]:
        """Features of all tokens before the head, (B, N, D), and logits."""
        seen: list[Tensor] = []
        with self.base_model.register_forward_hook(lambda _module, _inputs, output: seen.append(output[0])):
            logits = self(inputs)
        return seen[0], logits

    def features(self: Any, inputs: Tensor) -> Tensor:
        """Features of the token that the head of a classifier reads, (B, D): the last one, or the first of encoders."""
        tokens = self.tokens(inputs)
        if not self.is_causal_network:
            first: Tensor = tokens[:, 0]
            return first
        position = inputs[:, 1].sum(dim=1).clamp(min=1) - 1
        last: Tensor = tokens[torch.arange(len(inputs), device=inputs.device), position]
        return last

    def pooled(self, tokens: Tensor, real: Tensor) -> Tensor:
        """The vectors of texts, (B, D), by :attr:`pooling`.

        Args:
            tokens: Features of all tokens, (B, N, D).
            real: Which tokens are not padding, (B, N).
        """
        if self.pooling == "cls":
            return tokens[:, 0]
        if self.pooling == "lasttoken":
            return tokens[torch.arange(len(tokens), device=tokens.device), real.sum(dim=1).clamp(min=1) - 1]
        counted = real.unsqueeze(-1)
        return (tokens * counted).sum(dim=1) / counted.sum(dim=1).clamp(min=1)

    def _arguments(self: Any, inputs: Tensor) -> dict[str, Tensor]:
        """The arguments of transformers' network; token types only where it has several."""
        if inputs.shape[2] > self.most_tokens:
            raise UserError(
                f"a text has {inputs.shape[2]} tokens, but the architecture reads at most {self.most_tokens}; "
                f"lower data.max_len or choose an architecture with a larger max_len"
            )
        ids, mask, types = inputs.unbind(1)
        has_types = getattr(self.config, "type_vocab_size", 0) > 1
        return {"input_ids": ids, "attention_mask": mask} | ({"token_type_ids": types} if has_types else {})

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
        first = next(index for index, name in enumerate(names) if name.startswith(self.layer_prefix))
        stem = "|".join(map(re.escape, names[:first]))
        last = (rf"^{re.escape(self.base_model_prefix)}\.", (99999,))  # 99999: the group before
        return {"stem": f"^(?:{stem})$", "blocks": [(rf"^{re.escape(self.layer_prefix)}(\d+)", None), last]}

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


def text_network(config: PretrainedConfig, kind: str, structure: Any, most_tokens: int) -> Any:
    """Build a network with the random initialization of transformers.

    Args:
        config: Its configuration.
        kind: ``language``, or that of a classifier.
        structure: Its structure, or a guess at it.
        most_tokens: Longest text.
    """
    base = network_class(config, kind)
    config._attn_implementation = _ATTENTION if base._supports_sdpa and base._supports_attention_backend else "eager"
    config.use_cache = False
    network = _class(base)(config)
    network.is_causal_network, network.layer_prefix = structure.is_causal, structure.layers
    network.head_name = structure.head.rstrip(".")
    network.most_tokens = most_tokens
    is_plain = all(name.startswith(structure.head) for name in structure.after_tokens)
    network.reads_last_token = structure.is_causal and is_plain
    network.is_language_model = kind == "language"
    return network
