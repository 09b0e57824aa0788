"""The transformers model behind :class:`~lgx.architectures.gpt2.GPT2Architecture`; imports transformers."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from transformers import GPT2Config, GPT2ForSequenceClassification
from transformers.utils import logging

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

    @property
    def num_features(self) -> int:
        """Width D."""
        return int(self.config.n_embd)

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

    def mean_features(self, ids: Tensor) -> Tensor:
        """The mean over each text's tokens behind the last norm, (B, D); padding does not count.

        Raises:
            UserError: If the texts are longer than the position embedding.
        """
        real = (ids != self.config.pad_token_id).unsqueeze(-1)
        total = (self.tokens(ids) * real).sum(dim=1)
        mean: Tensor = total / real.sum(dim=1).clamp(min=1)
        return mean

    def no_weight_decay(self) -> set[str]:
        """Names of the embeddings, which optimizers shall not shrink."""
        return {"transformer.wte.weight", "transformer.wpe.weight"}

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


def read_pretrained(name: str) -> tuple[dict[str, Tensor], "GPT2Architecture", bool]:
    """Read a GPT-2 of transformers, whatever it was trained for.

    Args:
        name: Folder, or name on the Hugging Face hub.

    Returns:
        Parameters under the names of :class:`GPT2Classifier`, the architecture, and whether the head is the source's
        own: a language model has none for texts, and gets a random one.

    Raises:
        UserError: If it cannot be read, or is no GPT-2 as published.
    """
    from lgx.architectures.gpt2 import GPT2Architecture

    try:
        with silent():
            model, report = GPT2ForSequenceClassification.from_pretrained(
                name, output_loading_info=True, dtype=torch.float32
            )
    except (OSError, ValueError, RuntimeError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:120]
        raise UserError(f"{name}: transformers could not load it ({reason})") from error
    config = model.config
    architecture = GPT2Architecture(
        config.n_layer, config.n_embd, config.n_head, config.n_positions, config.vocab_size, config.num_labels
    )
    plain = gpt2_config(architecture, 0.0)
    for key in ("activation_function", "layer_norm_epsilon", "scale_attn_weights", "scale_attn_by_inverse_layer_idx"):
        if (have := getattr(config, key)) != (want := getattr(plain, key)):
            raise UserError(f"{name}: its {key} is {have}, only GPT-2's own {want} is known")
    if config.n_inner not in (None, 4 * config.n_embd):
        raise UserError(f"{name}: its n_inner is {config.n_inner}, only GPT-2's own {4 * config.n_embd} is known")
    if missing := sorted(set(report["missing_keys"]) - {"score.weight"}):
        raise UserError(f"{name}: lacks {missing[0]}; copy the folder again")
    return model.state_dict(), architecture, "score.weight" not in report["missing_keys"]


@contextmanager
def silent() -> Iterator[None]:
    """Keep transformers' progress bars and reports off the terminal inside the block."""
    level, bar = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bar:
            logging.enable_progress_bar()
