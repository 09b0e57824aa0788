"""The transformers model behind :class:`~lgx.architectures.gpt2.GPT2Architecture`; imports transformers."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2ForSequenceClassification

from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.architectures.gpt2 import GPT2Architecture


def gpt2_config(architecture: "GPT2Architecture", dropout: float) -> GPT2Config:
    """The configuration of an architecture."""
    return GPT2Config(
        vocab_size=architecture.vocab_size,
        n_positions=architecture.max_len,
        n_embd=architecture.embed_dim,
        n_layer=architecture.depth,
        n_head=architecture.num_heads,
        num_labels=architecture.num_classes,
        bos_token_id=architecture.pad_id,
        eos_token_id=architecture.pad_id,
        pad_token_id=architecture.pad_id,
        resid_pdrop=dropout,
        embd_pdrop=dropout,
        attn_pdrop=dropout,
        attn_implementation="sdpa",
    )


class GPT2Classifier(GPT2ForSequenceClassification):
    """transformers' classifier with token ids as its only input and logits as its only output.

    The layers are run directly: transformers' own ``forward`` looks at the ids' values for padding and packed texts,
    which halts a GPU at every batch and fails on the meta device. Texts are padded on the right and attention is
    causal, so no token ever sees padding, and no mask is needed.

    Args:
        config: transformers' configuration.
    """

    def forward(self, ids: Tensor) -> Tensor:
        """Logits (B, K) of token ids (B, N)."""
        logits: Tensor = self.score(self.features(ids))
        return logits

    def features(self, ids: Tensor) -> Tensor:
        """Each text's last token behind the last norm, (B, D): what a class token is to a ViT.

        Raises:
            UserError: If the texts are longer than the position embedding.
        """
        tokens = self.tokens(ids)
        places = torch.arange(ids.shape[1], device=ids.device)
        last = ((ids != self.config.pad_token_id) * places).argmax(dim=1)
        return tokens[torch.arange(len(ids), device=ids.device), last]

    def tokens(self, ids: Tensor) -> Tensor:
        """All tokens behind the last norm, (B, N, D); those of padding are meaningless.

        Raises:
            UserError: If the texts are longer than the position embedding.
        """
        if ids.shape[1] > self.config.n_positions:
            raise UserError(
                f"a text has {ids.shape[1]} tokens, but the architecture has max_len {self.config.n_positions}; "
                f"lower data.max_len or choose a larger one"
            )
        network = self.transformer
        x = network.wte(ids) + network.wpe(torch.arange(ids.shape[1], device=ids.device))
        x = network.drop(x)
        for block in network.h:
            x = block(x)
        normed: Tensor = network.ln_f(x)
        return normed
