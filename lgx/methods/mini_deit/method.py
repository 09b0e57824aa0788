"""Mini-DeiT: weight multiplexing, shared layers that differ by a small linear transformation."""

from collections.abc import Mapping
from typing import Any, cast

from timm.layers import Mlp
from timm.models.vision_transformer import Attention, Block
from torch import Tensor, nn

from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.initialization.expansion import first_of_stages
from lgx.methods.mini_deit import SPEC
from lgx.methods.mini_deit.network import MultiplexedAttention, MultiplexedMlp, is_known
from lgx.methods.sws.method import SWS


class MiniDeiT(SWS):
    """Learn stage learngenes with an auxiliary net whose shared layers have small transformations of their own.

    The layers of a stage share the weights of attention and MLP [0]. Each layer has its own norms, a linear
    transformation over the heads before and one after the softmax, and a depth-wise 3 x 3 convolution of the image
    tokens that the MLP reads. This follows the paper's text, applied to DeiT with its class token and position
    embedding, and has the 44.1 M parameters of SWS's Table 5 for pairs of layers in DeiT-B. The released Mini-DeiT has
    relative positions instead of a class token, and no convolution. Our convolution leaves the prefix tokens out: class
    token, registers, distillation token. Where the head reads the class token alone, the convolution of the last layer
    is therefore never trained, because nothing reads that layer's image tokens.

    Ours are also the start (every transformation is the identity plus a deviation of 0, so that the start is that of
    SWS) and the loss (Eq. 4 of SWS, without MiniViT's distillation of attention and hidden states).

    Descendants are plain networks: the learngene holds the shared weights and the norms of each stage's first layer,
    and is expanded like one of SWS, without the transformations.

    [0]: Zhang et al., "MiniViT: Compressing Vision Transformers with Weight Multiplexing", CVPR 2022,
    https://arxiv.org/abs/2204.07154

    Args:
        stages: Layers of each stage, front to back; MiniViT shares between two.
        kwargs: Arguments of ``SWS``, of ``Distill`` and of every method. A ``start`` from the ancestor's layers also
            gives the norms of a stage's layers, all the same.
    """

    spec = SPEC

    def __init__(self, stages: tuple[int, ...] = (2, 2, 2, 2, 2, 2), **kwargs: Any) -> None:
        super().__init__(stages=stages, **kwargs)

    def random_network(self) -> nn.Module:
        """The auxiliary net with its transformations, which are the identity at every start."""
        network = self.architecture.replace(stages=None).build(drop_rate=self.drop_rate)
        blocks = [cast(Block, block) for block in network.blocks]
        if not is_known(blocks[0]):
            raise UserError(f"model MiniDeiT: cannot transform layers of {self.architecture.form}; use SWS or TLEG")
        prefix, rows = self.architecture.num_prefix_tokens, self.architecture.grid[0]
        for first, size in zip(first_of_stages(self.stages), self.stages, strict=True):
            attention, mlp = cast(Attention, blocks[first].attn), cast(Mlp, blocks[first].mlp)
            for block in blocks[first : first + size]:
                block.attn, block.mlp = MultiplexedAttention(attention), MultiplexedMlp(mlp, prefix, rows)
        return network

    def learngene(self, state: Mapping[str, Tensor]) -> Learngene:
        """One layer per stage, and all parameters outside the layers; without the transformations."""
        plain = self.architecture.build("meta").state_dict().keys()
        return super().learngene({name: tensor for name, tensor in state.items() if name in plain})
