"""Networks that are too large for one device: each process keeps a share of every layer (FSDP2)."""

from lightning.pytorch.strategies import ModelParallelStrategy, StrategyRegistry
from torch import nn
from torch.distributed.fsdp import fully_shard

from lgx.errors import UserError


class Sharded(ModelParallelStrategy):
    """``trainer.strategy: sharded``: every process keeps a share of each layer and trains on data of its own.

    Left to itself, Lightning's ``ModelParallelStrategy`` takes the processes of a node for tensor-parallel ones: layers
    sharded over its data-parallel mesh are then not shared at all, and every process silently trains alone. Checkpoints
    are whole files, as with every other strategy.
    """

    def __init__(self) -> None:
        super().__init__(tensor_parallel_size=1, save_distributed_checkpoint=False)

    def setup_environment(self) -> None:
        """Take all processes for data-parallel ones."""
        self._data_parallel_size = self.num_nodes * self.num_processes
        super().setup_environment()

    def shard(self, network: nn.Module, layers: str) -> None:
        """Shard a network in place, layer by layer, so that one whole layer at a time lies on a device.

        Args:
            network: timm's or transformers' network.
            layers: How its layers' names begin, ``blocks.``.
        """
        mesh = self.device_mesh["data_parallel"]
        for layer in network.get_submodule(layers.removesuffix(".")).children():
            fully_shard(layer, mesh=mesh)
        fully_shard(network, mesh=mesh)


StrategyRegistry.register("sharded", Sharded, description=Sharded.__doc__ or "")


def refuse_other_shards(strategy: object) -> None:
    """Refuse strategies that shard but know nothing of how.

    Raises:
        UserError: If the strategy is one.
    """
    if isinstance(strategy, ModelParallelStrategy) and not isinstance(strategy, Sharded):
        raise UserError("trainer.strategy: ModelParallelStrategy leaves the sharding to the network; write sharded")
