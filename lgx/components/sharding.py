"""Sharded training (FSDP2) of networks that are too large for one device."""

from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import nn
from torch.distributed.fsdp import fully_shard

from lgx.errors import UserError


class ShardedStrategy(ModelParallelStrategy):
    """``trainer.strategy: sharded``: each process stores a shard of every layer and trains on its own batches (FSDP2).

    By default, Lightning's ``ModelParallelStrategy`` puts all processes of a node on the tensor-parallel dimension of
    the device mesh. The data-parallel dimension then has size 1, so the network is not sharded, and each process trains
    its own copy without a warning. This strategy puts all processes on the data-parallel dimension. Checkpoints are
    single files, as with every other strategy.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        """Put all processes on the data-parallel dimension."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()


StrategyRegistry.register("sharded", ShardedStrategy, description=ShardedStrategy.__doc__ or "")


def shard(network: nn.Module, strategy: object, layers: str | None, method: str) -> None:
    """Shard a network where the strategy is ``sharded``, layer by layer: a device holds one whole layer at a time.

    Args:
        network: A network of timm or transformers.
        strategy: The trainer's strategy.
        layers: Common prefix of the layers' names, e.g. ``blocks.``; None for a network that cannot be sharded.
        method: Name of the method, for the message.
    """
    if isinstance(strategy, ShardedStrategy):
        if layers is None:
            raise UserError(f"trainer.strategy: the network of {method} cannot be sharded; use ddp")
        mesh = strategy.device_mesh["data_parallel"]
        for layer in network.get_submodule(layers.removesuffix(".")).children():
            fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)
    elif isinstance(strategy, ModelParallelStrategy):
        raise UserError("trainer.strategy: ModelParallelStrategy does not shard the network; use sharded instead")
