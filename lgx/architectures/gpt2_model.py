"""The network behind :class:`~lgx.architectures.gpt2.GPT2Architecture`; imports transformers."""

from typing import Any

import torch
from torch import Tensor
from transformers import GPT2ForSequenceClassification

from lgx.errors import UserError


class GPT2Classifier(GPT2ForSequenceClassification):
    """transformers' classifier with token ids as its only input and logits as its only output.

    The layers are called directly. transformers' own ``forward`` reads the ids' values to find padding and packed
    texts, which synchronizes a GPU in every batch and fails on the meta device. Texts are padded on the right and
    attention is causal, so no token attends to padding, and no mask is needed.

    Args:
        config: transformers' configuration.
    """

    @property
    def num_features(self) -> int:
        """Width D."""
        return int(self.config.n_embd)

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, K) of token ids (B, N)."""
        return self.tokens_and_logits(ids)[1]

    def tokens_and_logits(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Features of all tokens after the last norm, (B, N, D), and logits."""
        tokens = self.tokens(ids)
        return tokens, self.score(self._last(tokens, ids))

    def features(self, ids: Tensor) -> Tensor:
        """Features of each text's last token after the last norm, (B, D), like those of a ViT's class token."""
        return self._last(self.tokens(ids), ids)

    def _last(self, tokens: Tensor, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        last = ((ids != self.config.pad_token_id) * places).argmax(dim=1)
        return tokens[torch.arange(len(ids), device=ids.device), last]

    def mean_features(self, ids: Tensor) -> Tensor:
        """Mean features of each text's tokens after the last norm, (B, D), without the padding."""
        real = (ids != self.config.pad_token_id).unsqueeze(-1)
        mean: Tensor = (self.tokens(ids) * real).sum(dim=1) / real.sum(dim=1).clamp(min=1)
        return mean

    def no_weight_decay(self) -> set[str]:
        """Names of the embeddings, which are excluded from weight decay."""
        return {"transformer.wte.weight", "transformer.wpe.weight"}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Groups of parameters by layer, as timm's ViTs give them; the last norm belongs to the last block."""
        blocks = [(r"^transformer\.h\.(\d+)", None), (r"^transformer\.ln_f", (99999,))]  # 99999: the group before
        return {"stem": r"^transformer\.w[tp]e", "blocks": blocks}

    def tokens(self, ids: Tensor) -> Tensor:
        """Features of all tokens after the last norm, (B, N, D); features of padding are meaningless."""
        if ids.shape[1] > self.config.n_positions:
            raise UserError(
                f"a text has {ids.shape[1]} tokens, but the architecture has max_len {self.config.n_positions}; "
                f"lower data.max_len or choose an architecture with a larger max_len"
            )
        network = self.transformer
        x = network.wte(ids) + network.wpe(torch.arange(ids.shape[1], device=ids.device))
        x = network.drop(x)
        for block in network.h:
            x = block(x)
        normed: Tensor = network.ln_f(x)
        return normed
