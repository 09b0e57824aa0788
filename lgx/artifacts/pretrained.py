"""Where trained weights come from: our files, timm's and transformers' folders and hubs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import timm
from timm.models.vision_transformer import VisionTransformer
from torch import Tensor, nn

from lgx.architectures import Architecture, GPT2Architecture, ViTArchitecture, name_of, vit_only
from lgx.artifacts.learngene import SUFFIX, Learngene, load_checkpoint, read_safetensors
from lgx.artifacts.metadata_schema import AGAIN, TASK, check_shapes, count_layers, described_architecture, is_weight
from lgx.artifacts.model_folders import check_gpt2_folder, check_timm_folder
from lgx.core.extras import nlp_extra
from lgx.core.schema import check_fields, read_json
from lgx.errors import UserError

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class PretrainedNetwork:
    """A trained network.

    Attributes:
        name: What the user called it.
        model: The network, in eval mode, images (B, C, H, W) or token ids (B, N) -> (B, K).
        architecture: Its description where it is a plain ViT or a GPT-2, else None.
        mean: Per-channel mean of its inputs; () of a text model.
        std: Per-channel standard deviation of its inputs; () of a text model.
        has_head: Whether its head was trained; that of a language model's body was not.
    """

    name: str
    model: nn.Module
    architecture: Architecture | None
    mean: tuple[float, ...] = ()
    std: tuple[float, ...] = ()
    has_head: bool = True

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Its trained parameters under timm's or transformers' names."""
        state = self.model.state_dict()
        if self.architecture is None or self.has_head:
            return state
        return {name: tensor for name, tensor in state.items() if not name.startswith(self.architecture.head)}

    def require_known(self, purpose: str) -> Architecture:
        """The architecture, or a UserError that says that ``purpose`` needs a plain ViT or a GPT-2."""
        if self.architecture is None:
            raise UserError(f"{self.name}: {purpose} needs a plain ViT or a GPT-2, got {type(self.model).__name__}")
        return self.architecture

    def require_vit(self, purpose: str) -> ViTArchitecture:
        """The architecture, or a UserError that says that ``purpose`` needs a plain ViT."""
        if self.architecture is None:
            raise UserError(f"{self.name}: {purpose} needs a plain ViT, got {type(self.model).__name__}")
        return vit_only(self.architecture, f"{self.name}: {purpose}")


def load_pretrained(name: str) -> PretrainedNetwork:
    """Load a trained network.

    Args:
        name: One of

            - ``*.learngene.safetensors`` of a whole network (method ``ancestor`` or ``simple_lg``),
            - a folder that ``lgx init``, ``timm.models.save_for_hf`` or, of a GPT-2, ``save_pretrained`` wrote, with or
              without ``local-dir:``,
            - a Lightning checkpoint ``*.ckpt`` of an lgx run,
            - a timm model name, e.g. ``levit_384.fb_dist_in1k`` or ``hf-hub:…`` (downloaded by timm),
            - ``gpt2:`` before a GPT-2's name on the Hugging Face hub, e.g. ``gpt2:openai-community/gpt2``.

    Raises:
        UserError: If it does not exist or cannot be read.
    """
    path = Path(name.removeprefix("local-dir:"))
    if name.endswith(SUFFIX):
        return _from_learngene(name)
    if name.endswith(".ckpt"):
        return _from_checkpoint(name)
    if name.startswith("local-dir:") or path.is_dir():
        return _from_folder(path)
    if name.startswith(f"{GPT2Architecture.family}:"):
        return _from_transformers(name, name.removeprefix(f"{GPT2Architecture.family}:"))
    if path.suffix in (".safetensors", ".pt", ".pth", ".bin") or "/" in name.removeprefix("hf-hub:").split(":")[0]:
        if not path.exists() and not name.startswith("hf-hub:"):
            raise UserError(f"{name}: no such file or folder")
        if not name.startswith("hf-hub:"):
            raise UserError(
                f"{name}: a bare weights file does not say its architecture; give a learngene file, "
                f"a timm folder (config.json beside model.safetensors) or a checkpoint of a run"
            )
    return _from_timm(name)


def _from_learngene(name: str) -> PretrainedNetwork:
    learngene = Learngene.load(name)
    if learngene.hypernet is not None:
        raise UserError(f"{name}: holds a hypernetwork; write a descendant with `lgx init --source {name} --arch …`")
    whole = not learngene.architecture.shares_layers and learngene.method != "tleg"
    if not whole or learngene.num_layers != learngene.architecture.depth:
        raise UserError(
            f"{name}: holds {learngene.num_layers} layers of {learngene.method}, not a whole network; "
            f"expand it with `lgx init --source {name} --arch …` first"
        )
    task = learngene.task
    return _network(name, learngene.architecture, learngene.tensors, task.get("mean"), task.get("std"))


def _from_checkpoint(name: str) -> PretrainedNetwork:
    checkpoint = load_checkpoint(name)
    about, state = checkpoint.get("lgx"), checkpoint.get("state_dict")
    if not isinstance(about, dict) or "architecture" not in about or not isinstance(state, dict):
        raise UserError(f"{name}: not a checkpoint of an lgx run; give a learngene file or a timm folder")
    place = f"{name}: what it says of itself is damaged"
    architecture = described_architecture(about["architecture"], place)
    if architecture.shares_layers or about.get("method") == "tleg":
        raise UserError(f"{name}: holds an auxiliary net, not a learngene; give best{SUFFIX} of that run")
    prefix = "network."
    if "routing" in about:
        raise UserError(f"{name}: holds a super ancestor; take its learngene, or `lgx extract` one")
    tensors = {k.removeprefix(prefix): v for k, v in state.items() if str(k).startswith(prefix)}
    task = check_fields(about.get("task", {}), TASK, f"{place}: task")
    return _network(name, architecture, tensors, task.get("mean"), task.get("std"))


def _network(
    name: str,
    architecture: Architecture,
    tensors: dict[str, Tensor],
    mean: Sequence[float] | None,
    std: Sequence[float] | None,
) -> PretrainedNetwork:
    if (layers := count_layers(tensors, architecture.layers, name)) != architecture.depth:
        raise UserError(f"{name}: holds {layers} layers, but says that they are {architecture.depth}; {AGAIN}")
    if wrong := next((key for key, tensor in tensors.items() if not is_weight(tensor)), None):
        raise UserError(f"{name}: {wrong} is no tensor of floating-point numbers; {AGAIN}")
    check_shapes(tensors, architecture, name)
    model = architecture.build("meta")
    try:
        model.load_state_dict({key: tensor.float() for key, tensor in tensors.items()}, assign=True)
    except RuntimeError as error:
        first = str(error).splitlines()[1].strip() if "\n" in str(error) else str(error)
        raise UserError(f"{name}: its tensors are not those of {name_of(architecture)}: {first}") from error
    if not isinstance(architecture, ViTArchitecture):
        return PretrainedNetwork(name, model.eval(), architecture)
    channels = architecture.in_chans
    mean, std = mean or [0.5] * channels, std or [0.5] * channels
    if not len(mean) == len(std) == channels:
        raise UserError(
            f"{name}: has a mean and std of {len(mean)} and {len(std)} channels, expected {channels}; {AGAIN}"
        )
    return PretrainedNetwork(name, model.eval(), architecture, tuple(mean), tuple(std))


def _from_folder(path: Path) -> PretrainedNetwork:
    config = path / "config.json"
    if not config.is_file():
        raise UserError(f"{path}: no config.json there; expected a folder that `lgx init --out {path}` writes")
    about = check_fields(read_json(config, "write the folder again"), {}, str(config))
    tensors, _ = read_safetensors(path / "model.safetensors")
    if about.get("model_type") == GPT2Architecture.family:
        check_gpt2_folder(about, tensors, config)
        return _from_transformers(str(path), str(path))
    check_timm_folder(about, tensors, config)
    return _timm_source(f"local-dir:{path}")


def _from_transformers(name: str, place: str) -> PretrainedNetwork:
    with nlp_extra(name):
        from lgx.artifacts.transformers_models import read_pretrained
    try:
        tensors, architecture, has_head = read_pretrained(place)
    except UserError:
        raise
    except Exception as error:  # transformers' own kinds, and whatever a key of its configuration leads to
        raise UserError(f"{name}: transformers could not load it ({_reason(error)}); save it again") from error
    return replace(_network(name, architecture, tensors, None, None), has_head=has_head)


def _from_timm(name: str) -> PretrainedNetwork:
    if not name.startswith("hf-hub:") and not timm.is_model(name.split(".")[0]):
        raise UserError(f"{name}: neither a file, nor a folder, nor a model that timm knows (see timm.list_models())")
    return _timm_source(name)


def _timm_source(name: str) -> PretrainedNetwork:
    try:
        model: Any = timm.create_model(name, pretrained=True).eval()
        config = model.pretrained_cfg or {}
        mean, std = tuple(config.get("mean") or IMAGENET_MEAN), tuple(config.get("std") or IMAGENET_STD)
        architecture = describe_vit(model)
    except Exception as error:  # timm and the hub client raise many kinds: network, HTTP, shapes, missing weights
        raise UserError(
            f"{name}: timm could not load it ({_reason(error)}); without network give a local folder instead"
        ) from error
    if architecture is not None and architecture.kind == "segmentation":
        return _network(name, architecture, model.state_dict(), mean, std)  # timm's own lacks the decoder
    return PretrainedNetwork(name, model, architecture, mean, std)


def _reason(error: Exception) -> str:
    """The beginning of another library's message, in one line."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)[:200]


def describe_vit(model: nn.Module) -> ViTArchitecture | None:
    """The architecture of a timm model where it is a plain ViT (class token, no distillation token), else None.

    One whose head reads every token is for segmentation.
    """
    if type(model) is not VisionTransformer or model.num_prefix_tokens != 1 or model.cls_token is None:
        return None
    block: Any = model.blocks[0]
    patches = model.patch_embed
    candidate = ViTArchitecture(
        depth=len(model.blocks),
        embed_dim=model.embed_dim,
        num_heads=block.attn.num_heads,
        mlp_ratio=block.mlp.fc1.out_features / model.embed_dim,
        patch_size=patches.patch_size[0],
        img_size=patches.img_size[0],
        num_classes=model.num_classes,
        in_chans=patches.proj.in_channels,
        kind="segmentation" if model.global_pool == "" else "classification",
    )
    same = {k: v.shape for k, v in candidate.build("meta").state_dict().items()} == {
        k: v.shape for k, v in model.state_dict().items()
    }
    return candidate if same else None
