"""Updates of students weigh all labels alike; networks and teachers of every precision are measured in full."""

from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from data_modules import ImageFolderData
from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments, lgx, ok
from tests.support.images import write_images
from tests.training.test_pairs import write

PLAIN = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "augment": "none"}
"""How images are read, whatever network starts."""
SGD = [
    *(f"--data.{name}={[*value] if name != 'augment' else value}" for name, value in PLAIN.items()),
    "--model.optimizer=torch.optim.SGD",
    "--model.optimizer.lr=0.5",
    "--model.scheduler=null",
]


def network_in(folder: Path, arch: str, classes: int, kind: str) -> tuple[str, nn.Module]:
    """The file of a learngene with random weights, and its network."""
    architecture = parse_architecture(arch, num_classes=classes, kind=kind)
    network = architecture.build()
    nn.init.normal_(network.head.weight, std=0.1)  # type: ignore[union-attr, arg-type]
    file = folder / f"{kind}.learngene.safetensors"
    Learngene("ancestor", architecture, dict(network.state_dict())).save(file)
    return str(file), network.train()


def trained(run: Path) -> dict[str, Tensor]:
    state = load_checkpoint(run / "checkpoints/last.ckpt")["state_dict"]
    return {name.removeprefix("network."): tensor for name, tensor in state.items() if name.startswith("network.")}


@pytest.mark.parametrize("layout", ["multilabel", "masks"])
@pytest.mark.parametrize("guidance", ["logits", "features"])
def test_an_update_of_a_student_weighs_all_labels_alike(tmp_path: Path, guidance: str, layout: str) -> None:
    data, kind, classes = "MultiLabelFolderData", "multilabel", 3
    if layout == "masks":
        data, kind, classes = "VOC12", "segmentation", 21
    write(tmp_path / "set", layout, has_val=False, images=16, absent=False, size=(16, 16))
    torch.manual_seed(1)  # the ancestor differs from the student's own start
    source, _ = network_in(tmp_path, ARCH, classes, kind)
    command = arguments("fit", "Distill", tmp_path, tmp_path / "runs")
    kept = [part for part in command if "WarmupCosine" not in part and not part.startswith("--data")]
    kept += [f"--data={data}", f"--data.root={tmp_path / 'set'}", "--data.img_size=16", "--data.val_fraction=0", *SGD]
    kept += [f"--model.ancestor={source}", f"--model.guidance={guidance}"]
    for name, batch, accumulated in (("whole", 16, 1), ("parts", 2, 8)):
        parts = [f"--data.batch_size={batch}", f"--trainer.accumulate_grad_batches={accumulated}", f"--name={name}"]
        ok(lgx(*kept, *parts))
    whole, parts_ = (trained(tmp_path / f"runs/test/{name}/seed0") for name in ("whole", "parts"))
    for name, tensor in whole.items():
        torch.testing.assert_close(parts_[name], tensor, atol=2e-6, rtol=1e-5)


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """More test images than bfloat16 can count one by one."""
    return write_images(tmp_path_factory.mktemp("many") / "many", {"train": 24, "val": 9, "test": 603})


def test_a_network_in_half_precision_is_measured_in_full_precision(many: Path, tmp_path: Path) -> None:
    source, network = network_in(tmp_path, ARCH, 3, "classification")
    options = [*SGD, "--model.initializer=Pretrained", f"--model.initializer.source={source}", "--untrained"]
    command = arguments("test", "Finetune", many, tmp_path / "runs", *options, "--name=half")
    ok(lgx(*command, "--trainer.precision=bf16-true"))
    module = ImageFolderData(root=str(many), img_size=16, batch_size=16, **PLAIN)
    module.setup("test")
    network = network.to(torch.bfloat16).eval()
    with torch.no_grad():
        pairs = [(network(batch.inputs.bfloat16()).float(), batch.targets) for batch in module.test_dataloader()]
    logits, targets = (torch.cat(parts) for parts in zip(*pairs, strict=True))
    loss = F.cross_entropy(logits.double(), targets)
    rows = {row.metric: row for row in read_rows(tmp_path / "runs/test/half/seed0/results.csv") if row.split == "test"}
    assert {row.n for row in rows.values()} == {603}
    assert rows["loss"].value == pytest.approx(float(loss), rel=2e-3)  # the rounding of the network
    assert rows["acc"].value == pytest.approx(float((logits.argmax(1) == targets).double().mean()), rel=1e-6)


@pytest.mark.parametrize(("guidance", "precision"), [("logits", "bf16-true"), ("features", "64-true")])
def test_a_teacher_has_the_precision_of_the_run(many: Path, tmp_path: Path, guidance: str, precision: str) -> None:
    source, _ = network_in(tmp_path, ARCH, 3, "classification")
    options = [f"--model.ancestor={source}", f"--model.guidance={guidance}", "--data.labels=false"]
    command = arguments("fit", "Distill", many, tmp_path / "runs", *options, f"--trainer.precision={precision}")
    ok(lgx(*command, "--name=t", "--test_end"))
    rows = read_rows(tmp_path / "runs/test/t/seed0/results.csv")
    assert {row.n for row in rows if row.split == "test"} == {603}
