"""A few images or texts, for initializers that measure a network on data."""

from torch import Tensor

from lgx.architectures import GPT2Architecture, HFArchitecture
from lgx.artifacts.pretrained import PretrainedNetwork
from lgx.artifacts.source_names import path_of
from lgx.core.task import Task


def sample(network: PretrainedNetwork, data: str, count: int, method: str) -> Tensor:
    """Read inputs of a network: images (N, C, H, W), normalized for it, or token ids (N, L), padded on the right.

    Args:
        network: The network; texts are read with the tokenizer in its folder.
        data: Folder with images or texts.
        count: How many; fewer where the folder holds fewer.
        method: Name of the method, for errors.
    """
    known = network.require_known(method)
    known = known.as_hf if isinstance(known, GPT2Architecture) else known
    if isinstance(known, HFArchitecture):
        from lgx.methods.weight_subcloning.sample_texts import sample_texts

        return sample_texts(data, count, known, path_of(network.name))
    vit = network.require_vit(method)
    task = Task(
        "sample", 0, in_chans=vit.in_chans, img_size=vit.img_size, mean=network.mean, std=network.std
    )  # fmt: skip
    from lgx.methods.weight_subcloning.sample_images import sample_images  # which imports all data modules

    return sample_images(data, count, task)
