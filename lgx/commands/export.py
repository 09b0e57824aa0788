"""``lgx export``: write a trained network for timm, transformers, onnxruntime or torch without lgx."""

from typing import TYPE_CHECKING, Any

from lgx.commands.run import SizeOptions
from lgx.commands.words import words_for
from lgx.errors import UserError

if TYPE_CHECKING:
    from lgx.artifacts.pretrained import PretrainedNetwork

_WRITER = "lgx export"


def export(
    source: str,
    *,
    out: str,
    size: SizeOptions,
    int8: str | None = None,
    most_lost: float = 1.0,
    tokenizer: str | None = None,
    force: bool = False,
) -> None:
    """Write a trained network for use without lgx: a timm or transformers folder, ONNX or torch.export.

    ONNX files and programs of torch.export take batches of any size. They contain class names, normalization, image
    size and the origin of the run. Their outputs are compared with the network's before they are moved to --out.

    Example: lgx export runs/mine/family/seed0 --params 1.5M --out small.onnx

    Args:
        source: Folder of a run (its final weights), a checkpoint (averaged weights if the run averages weights), a
            model folder, or a learngene file of a whole network or a family.
        out: Folder, or file ending in .onnx or .pt2 (torch.export).
        size: The network of a family.
        int8: Write an .onnx file in 8 bits, with onnxruntime's quantization. The value is the name of an image set, or
            a folder with train/<class>/<image>: training images calibrate, test images compare the accuracy.
        most_lost: Largest accepted loss of accuracy by --int8, in points. After a larger loss nothing is written.
        tokenizer: Another tokenizer for a network of texts than that of the source or run: folder, or name on the hub.
        force: Replace what another command or program wrote. The command never replaces its inputs.
    """
    from lgx.architectures import name_of
    from lgx.artifacts.export import check_model_place, write_descendant
    from lgx.artifacts.sources import place_in_run, resolve
    from lgx.commands.members import load_chosen
    from lgx.results.model_facts import model_facts

    if int8 is not None and not out.endswith(".onnx"):
        raise UserError(f"--int8: needs an ONNX file; give --out a name ending in .onnx, not {out}")
    if int8 is None and most_lost != 1.0:
        raise UserError("--most_lost: is the limit of --int8; add --int8, or leave it out")
    resolved = resolve(place_in_run(source))
    check_model_place(out, _WRITER, force, (source, resolved.place, tokenizer), tokenizer)
    network, scores = load_chosen(resolved.place, size.arch, size.budgets())
    architecture = network.require_architecture("export")
    facts = model_facts(resolved, architecture, scores)
    if out.endswith((".onnx", ".pt2")):
        write_program(out, network, {**facts, "architecture": architecture.spec()}, int8, most_lost)
    else:
        beside: tuple[Any, ...] = words_for(architecture, tokenizer, resolved.place), network.reading, network.space
        names = network.label_names or None
        inputs = (network.mean, network.std)
        network.model.to(dtype=network.half)  # None leaves float32
        write_descendant(out, network.model, architecture, *inputs, names, facts, _WRITER, None, *beside)
    print(f"written   {out}: {name_of(architecture)}, {architecture.outputs}")


def write_program(
    out: str, network: "PretrainedNetwork", facts: dict[str, Any], int8: str | None = None, most_lost: float = 1.0
) -> None:
    """Write an ONNX file or a program of torch.export, and print its difference from the network."""
    from lgx.artifacts.export.onnx_file import write_onnx
    from lgx.artifacts.export.program import task_of, to_texts, write_pt2
    from lgx.components.features import Encoder

    is_encoder = network.space is not None
    task = task_of(network, str(facts.get("task", "")), of_vectors=is_encoder)
    model = Encoder(network.model, network.space).eval() if is_encoder else network.model
    texts = to_texts(task, facts)
    if int8 is not None:
        from lgx.commands.int8 import quantize

        quantize(out, model, task, texts, int8, most_lost)
        return
    difference = (write_onnx if out.endswith(".onnx") else write_pt2)(out, model, task, texts)
    if difference is None:
        print("parity    not checked: onnxruntime is not installed; pip install 'lgx[export]'")
    else:
        what = "vectors" if is_encoder else "logits"
        print(f"parity    {what} differ by at most {difference:.1e} from the network's {what}")
