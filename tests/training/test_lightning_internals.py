"""The private members of other packages that lgx uses: they exist, do what is said of them, and stand in one file."""

import ast
import inspect
import re
from pathlib import Path

import jsonargparse
import lightning.pytorch
import torch

from lgx.training import lightning_internals as internals
from lgx.training.configuration import make_parser
from tests.support.paths import ROOT

OTHERS = {
    "argparse", "jsonargparse", "lightning", "timm", "torch", "torchvision", "torchmetrics", "transformers", "wandb",
    "tokenizers", "huggingface_hub", "safetensors", "yaml", "rich", "mlflow", "filelock", "onnx",
    "submitit", "matplotlib", "sklearn", "datasets", "tensorboard",
}  # fmt: skip
OBJECTS = (
    "trainer", "parser", "logger", "loop", "fit_loop", "epoch_loop", "average", "strategy", "action", "connector",
)  # fmt: skip
"""Names of variables that hold objects of Lightning, jsonargparse and argparse."""


EXTENSIONS = {
    "pytree": "torch's own examples of tensor subclasses walk arguments with it",
    "make_wrapper_subclass": "torch's way to make a tensor subclass",
    "C": "of tensor subclasses, too: DisableTorchFunctionSubclass",
    "ops": "type of an operator that torch.fx names",
    "subclasses": "FakeTensorMode, by which torch counts memory without data",
    "softmax_backward_data": "one operation instead of five, without a public name",
    "foreach": "torch._foreach_norm and others: one operation on many tensors, without a public name",
}
"""Names, without underscore, by which torch is extended -> what they are."""


def _is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_uses(path: Path) -> list[str]:
    """Private names of other packages in a module: of imports, and attributes of imported things and known objects."""
    tree = ast.parse(path.read_text())
    found, foreign = [], set(OBJECTS)
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
            foreign |= {(a.asname or a.name).split(".")[0] for a in node.names if a.name.split(".")[0] in OTHERS}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] in OTHERS and not node.level:
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
            foreign |= {alias.asname or alias.name for alias in node.names}
        else:
            continue
        found += [f"import {name}" for name in names if any(map(_is_private, name.split(".")))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = node.value
            while isinstance(owner, ast.Attribute) and owner.attr not in OBJECTS:
                owner = owner.value
            name = owner.attr if isinstance(owner, ast.Attribute) else getattr(owner, "id", "")
            found += [f"{name}….{node.attr}"] if name in foreign else []
    return found


def test_the_search_finds_private_names(tmp_path):
    module = tmp_path / "m.py"
    module.write_text(
        "import torch\nfrom jsonargparse._util import x\nfrom timm.models import _builder, vit\n"
        "torch._dynamo.reset()\nself.trainer._checkpoint_connector\nvit._cfg(1)\nself._own\ntorch.nn.__name__\n"
    )
    assert len(private_uses(module)) == 5


def test_no_other_module_touches_a_private_name_of_another_package():
    modules = [path for package in ("lgx", "data_modules") for path in sorted((ROOT / package).rglob("*.py"))]
    used = {str(path.relative_to(ROOT)): private_uses(path) for path in modules}
    assert used.pop("lgx/training/lightning_internals.py")
    known = re.compile(rf"_(?:{'|'.join(EXTENSIONS)})(?:$|(?<=foreach)_)")
    others = {file: [use for use in uses if not known.search(use)] for file, uses in used.items()}
    assert {file: uses for file, uses in others.items() if uses} == {}


def test_ddp_can_expect_unused_parameters():
    trainer = lightning.pytorch.Trainer(strategy="ddp", devices=1, accelerator="cpu", logger=False)
    internals.find_unused_parameters(trainer)
    assert "self._ddp_kwargs" in inspect.getsource(type(trainer.strategy)._setup_model)  # which reads them
    assert trainer.strategy._ddp_kwargs == {"find_unused_parameters": True}


def test_a_validation_after_training_sees_the_weights_of_the_network():
    from lightning.pytorch.callbacks import WeightAveraging

    network = lightning.pytorch.LightningModule()
    network.weight = torch.nn.Parameter(torch.zeros(1))
    callback = WeightAveraging()
    trainer = lightning.pytorch.Trainer(callbacks=[callback], logger=False, accelerator="cpu")
    callback.setup(trainer, network, "fit")
    network.weight.data.fill_(1)
    internals.forget_averages(trainer)
    callback.on_validation_epoch_start(trainer, network)
    assert float(network.weight.detach()) == 1


def test_all_options_of_a_parser_are_listed():
    parser = jsonargparse.ArgumentParser()
    parser.add_argument("name")
    parser.add_argument("--count", type=int)
    assert internals.option_strings(parser)[-1] == "--count"
    assert "--trainer.max_epochs" in internals.option_strings(make_parser("fit"))
    assert internals.option_strings(object()) == []


def test_a_whole_number_of_batches_is_no_share(monkeypatch):
    hints = inspect.unwrap(lightning.pytorch.Trainer.__init__).__annotations__
    monkeypatch.setitem(hints, "limit_train_batches", float | int | None)  # as typing may have kept it
    parser = jsonargparse.ArgumentParser(exit_on_error=False)
    internals.read_whole_numbers_first(lightning.pytorch.Trainer)
    parser.add_class_arguments(lightning.pytorch.Trainer, "trainer")
    batches, share = (parser.parse_args([f"--trainer.limit_train_batches={n}"]).trainer for n in ("1", "1.0"))
    assert type(batches.limit_train_batches) is int
    assert type(share.limit_train_batches) is float
