"""``lgx import``: turn a file of weights of a timm model into a model folder."""

from dataclasses import replace

from lgx.core.task import ImageSize

WRITER = "lgx import"


def import_weights(
    model: str,
    *,
    out: str,
    weights: str | None = None,
    img_size: ImageSize | None = None,
    patch_size: int | None = None,
    in_chans: int | None = None,
    num_classes: int | None = None,
    force: bool = False,
) -> None:
    """Turn a file of weights of a timm model into a model folder that lgx and plain timm read.

    timm resamples patches and position embeddings to the given sizes. It reads the official files of DINOv2, DINOv3,
    CLIP and others. The normalization (mean and std) is that of timm's model.

    Example: lgx import timm:deit_tiny_patch16_224 --weights deit_tiny.safetensors --out ancestor

    Args:
        model: The model's name in timm, e.g. timm:deit_tiny_patch16_224.
        out: Folder to write.
        weights: File of weights (.safetensors, .pth, .pt or .bin); by default timm downloads the weights.
        img_size: Side of the images in pixels, or [height, width]; by default the model's own.
        patch_size: Height and width of a patch in pixels; by default the model's own.
        in_chans: Channels of the images; by default the model's own.
        num_classes: Classes of the head in the file, if they differ from timm's model; 0 leaves the head out.
        force: Replace what another command or program wrote. The command never replaces its inputs.
    """
    from lgx.artifacts.export import check_model_place
    from lgx.artifacts.export.models import describe_model, write_imported
    from lgx.artifacts.source_names import TIMM, TimmSource
    from lgx.artifacts.sources import resolve
    from lgx.artifacts.timm_models import import_timm
    from lgx.errors import UserError

    if out.endswith((".safetensors", ".pth", ".pt", ".bin")):
        raise UserError(f"--out {out}: expected a folder, because a file of weights does not name its model")
    resolved = resolve(weights) if weights else None
    check_model_place(out, WRITER, force, (resolved.place if resolved else None,))
    source = TimmSource(model.removeprefix(TIMM), weights, img_size, patch_size, in_chans, num_classes)
    network, ignored = import_timm(replace(source, weights=resolved.place if resolved else None))
    print(f"read      {weights or 'what timm downloaded'}\nignored   {', '.join(ignored) or 'nothing'}")
    print("\n".join(describe_model(network)))
    write_imported(out, network, replace(source, weights=resolved.name if resolved else None), WRITER)
    print(f"written   {out}")
