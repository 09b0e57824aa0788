"""Every command of the README and of the documentation and the notebook run, on small files of the right shapes."""

import json
import re
import shlex
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import save_file

from experiments.analyze.__main__ import COMMANDS as ANALYSES
from lgx.architectures import HFArchitecture, name_of, parse_architecture
from lgx.artifacts.export.models import words_in, write_descendant
from lgx.artifacts.export.onnx_file import run_onnx
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.cli import COMMANDS, TRAINING
from lgx.commands.predict import is_for_exported
from lgx.commands.training_help import EXAMPLES
from lgx.core.rows import Row, write_rows
from lgx.core.task import Task
from lgx.hypernet import Hypernet, HypernetConfig
from lgx.initialization.expansion import take_layers
from lgx.methods.lsamd.super_ancestor import SuperAncestor
from tests.support.command_line import lgx, ok, python, reproduce
from tests.support.fake_text import write_sets, write_vocabulary
from tests.support.images import write_images
from tests.support.paths import ROOT
from tests.support.tokenizers_of_models import write_tokenizer

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")), *sorted((ROOT / "docs/tutorials").glob("*.md"))]
ARCH = "depth=12,embed_dim=48,num_heads=3,patch_size=8,img_size=32"


def commands(pages: list[Path]) -> list[str]:
    text = "\n".join(page.read_text() for page in pages)
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [re.sub(r"\s+#.*", "", line).strip() for line in lines if line.strip()]


@pytest.fixture
def shallow(monkeypatch):
    """A DeiT-Tiny of seven layers saves time."""
    deit = partial(timm.models.deit_tiny_patch16_224, depth=7)
    monkeypatch.setitem(timm.models._registry._model_entrypoints, "deit_tiny_patch16_224", deit)


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the results of the earlier steps of the README."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    arch = parse_architecture(ARCH, num_classes=10)
    seven = arch.replace(depth=7)
    auxiliary = arch.replace(stages=(3, 3, 3, 3))
    sws = Learngene("sws", auxiliary, take_layers(auxiliary.build().state_dict(), [0, 3, 6, 9]))
    sws.save("runs/demo_sws/sws/seed0/final.learngene.safetensors")
    wide = parse_architecture("depth=12,embed_dim=192,num_heads=3,patch_size=8,img_size=32", num_classes=10)
    selection = {"layers": [*range(12)], "front": {"depth=3,embed_dim=128,num_heads=2,mlp_ratio=2": 0.5}}
    family = Learngene("family", wide, wide.build().state_dict(), selection=selection, content="family")
    family.save("runs/mine/family/seed0/final.learngene.safetensors")
    encoder, width = wide.replace(num_classes=0), wide.embed_dim
    maps = {"projection.summary.weight": torch.eye(width), "projection.summary.bias": torch.zeros(width)}
    tensors = encoder.build().state_dict() | maps
    backbones = Learngene("backbones", encoder, tensors, selection=selection, content="backbones")
    backbones.save("runs/mine/backbones/seed0/final.learngene.safetensors")
    headless = auxiliary.replace(num_classes=0)
    unlabeled = Learngene("sws", headless, take_layers(headless.build().state_dict(), [0, 3, 6, 9]))
    unlabeled.save("runs/mine/unlabeled/seed0/final.learngene.safetensors")
    state = {f"network.{k}": v for k, v in seven.build().state_dict().items()}
    about = {"architecture": seven.to_dict(), "task": {}, "epochs": 1, "method": "sws", "plain_network": True}
    (tmp_path / "runs/demo_sws/mine/seed0/checkpoints").mkdir(parents=True)
    torch.save({"lgx": about, "state_dict": state}, "runs/demo_sws/mine/seed0/checkpoints/best.ckpt")
    (tmp_path / "runs/demo_sws/mine/seed0/config.yaml").write_text(
        (ROOT / "experiments/sws/demo/descendant.yaml").read_text()
    )
    for name in ("eight", "small"):
        shutil.copytree("runs/demo_sws/mine", f"runs/mine/{name}")
    known = {f"pocket_{name}": {"num_classes": 10} for name in ("digits", "motions")}
    embeddings = TaskEmbeddings({name: torch.randn(8) for name in known}, tasks=known)
    config = HypernetConfig(
        16, 1, 2, max_shape=(32, 32, 8, 8), num_classes=10, rank=4, max_size=512, layout="aligned", task_width=8
    )
    tensors = Hypernet(config).state_dict()
    task_tensors = {f"task_embeddings.{name}": tensor for name, tensor in embeddings.tensors.items()}
    tal = Learngene("tal", arch, tensors | task_tensors, hypernet=config.to_dict(), tasks=embeddings.tasks)
    tal.save("runs/demo/tal/seed0/final.learngene.safetensors")
    small = parse_architecture("depth=1,embed_dim=8,num_heads=2,patch_size=8,img_size=32", num_classes=10)
    ancestor = Learngene("ancestor", small, small.build().state_dict())
    ancestor.save("runs/demo/ancestor/seed0/final.learngene.safetensors")
    embeddings.save("runs/demo/task_embeddings.safetensors")
    selected = parse_architecture("depth=6,embed_dim=96,num_heads=3,patch_size=8,img_size=32", num_classes=10)
    network = SuperAncestor(selected.build(), [Task(name, 10) for name in known], "batch")
    for branch, shares in zip(network.branches, ([1.0, 0, 1, 0, 0, 1], [1.0, 1, 0, 0, 1, 0]), strict=True):
        branch.base_share.copy_(torch.tensor(shares))
    about = {"architecture": selected.to_dict(), "method": "lsamd", "ancestor": "a", "routing": "batch", "tasks": known}
    (tmp_path / "runs/lsamd_pocket/lsamd/seed0/checkpoints").mkdir(parents=True)
    state = {f"network.{k}": v for k, v in network.state_dict().items()}
    torch.save({"lgx": about, "state_dict": state}, "runs/lsamd_pocket/lsamd/seed0/checkpoints/last.ckpt")
    _write_text(tmp_path)
    write_deit_tiny(tmp_path / "deit_tiny.safetensors")
    (tmp_path / "my_images").mkdir()
    Image.new("RGB", (40, 40), "red").save(tmp_path / "my_images/1.png")
    write_images(tmp_path / "classes/my_images", {"train": 30})
    rows = [
        Row(method, name_of(seven), "digits", "test", 0, "acc", 0.5, 0, 10, f"runs/demo_sws/{method}-7/seed0")
        for method in ("random", "sws")
    ]
    rates = "runs/learning_rates/ancestor/seed0"
    rows.append(Row("ancestor", name_of(seven), "digits", "val", 4, "acc", 0.5, 0, 10, rates))
    for row in rows:
        write_rows(f"{row.run}/results.csv", [row])
        shutil.copy(ROOT / "experiments/sws/demo/descendant.yaml", f"{row.run}/config.yaml")
        Path(f"{row.run}/summary.json").write_text('{"epochs": 4, "flops": 1e9, "start_flops": 0}')
    write_rows("runs/arena_pocket/measured.csv", rows)
    return tmp_path


def write_deit_tiny(path: Path) -> None:
    """A file of weights of timm's DeiT-Tiny, as timm publishes it, with random weights."""
    save_file(timm.create_model("deit_tiny_patch16_224").state_dict(), path)


def _write_text(folder: Path) -> None:
    """A language model, and an ancestor and TAL for texts with GPT-2's own number of tokens."""
    sizes = {"heads_per_group": 2, "max_len": 64, "vocab_size": 1000}
    llama = HFArchitecture(4, 64, 4, **sizes, kind="language", config='{"model_type":"llama"}')
    write_descendant(folder / "my_lm", llama.build(), llama)
    shutil.copytree(write_tokenizer(folder / "my_tokenizer", "bare", 1000), folder / "my_lm", dirs_exist_ok=True)
    classifier = llama.replace(kind="text", num_classes=3)
    write_descendant(folder / "minilm", classifier.build(), classifier, words=words_in(folder / "my_lm"))
    (folder / "new_reviews.csv").write_text("text\nthe cat sat\n")
    (folder / "my_texts").mkdir()
    (folder / "my_texts/train.txt").write_text("\n\n".join(f"the cat sat on mat {n}" for n in range(2000)))
    write_vocabulary(write_sets(folder / "data") / "gpt2_vocab", size=50257)
    write_tokenizer(folder / "data/pocket_vocab", "bare", 1024)
    gpt2 = HFArchitecture(1, 8, 2, max_len=64)
    runs = folder / "runs/text_mini"
    ancestor = Learngene("ancestor", gpt2, gpt2.build().state_dict())
    ancestor.save(runs / "ancestor/seed0/final.learngene.safetensors")
    config = HypernetConfig(
        16, 1, 2, max_shape=(64, 64, 4, 4), num_classes=2, rank=4, max_size=1024, layout="aligned", task_width=8,
        vocab_size=50257,
    )  # fmt: skip
    tensors = Hypernet(config).state_dict() | {"task_embeddings.cola": torch.randn(8)}
    tal = Learngene("tal", gpt2, tensors, hypernet=config.to_dict(), tasks={"cola": {"num_classes": 2}})
    tal.save(runs / "tal/seed0/final.learngene.safetensors")


@pytest.mark.usefixtures("workplace")
def test_every_lgx_command_of_the_readme_runs():
    assert run_commands(commands(PAGES[:1])) >= {"import", "fit", "export", "doctor", "sweep"}


@pytest.mark.slow
@pytest.mark.usefixtures("workplace")
def test_every_lgx_command_of_the_documentation_runs():
    ran = run_commands(commands(PAGES))
    assert ran >= {
        "fit", "test", "init", "export", "compare", "sweep", "data", "arch", "doctor", "plan", "embed",
        "extract",
    }  # fmt: skip
    assert ran <= {*TRAINING, *COMMANDS}


def examples_of_help() -> list[str]:
    """The first run of ``lgx --help``, and the example of every command's help."""
    first_run = lgx("--help").out.partition("a first run:")[2].replace("\\\n", " ").splitlines()
    lines = [re.sub(r" {2,}\(.*", "", line).strip() for line in first_run]
    first = ("import", "export", "fit")  # the others read what these write
    names = [*first, *(name for name in {**TRAINING, **COMMANDS} if name not in first)]
    for command in (*([name] for name in names), ["data", "list"], ["data", "prepare"]):
        example = re.split(r"an example:\s|example: ", lgx(*command, "--help").out)[1:]
        lines += [" ".join(text.partition("\n\n")[0].replace("\\\n", " ").split()) for text in example]
    return [line for line in lines if line]


@pytest.mark.usefixtures("workplace")
def test_the_first_run_and_every_example_of_a_help_run():
    config = Path("runs/first/net/seed0/config.yaml")
    config.parent.mkdir(parents=True)
    config.write_text(lgx(*EXAMPLES["fit"].split(), "--print_config").out)
    ran = run_commands(examples_of_help())
    assert ran >= {*TRAINING, *COMMANDS} - {"doctor", "plan"}


def run_commands(lines: list[str]) -> set[str]:
    """Run command lines as far as small files allow it; returns the names of the commands."""
    ran = []
    for line in lines:
        program, *words = shlex.split(line)
        if program in ("srun", "torchrun"):
            program, *words = words[words.index("lgx") :]
        if words[:2] == ["-m", "experiments.reproduce"]:
            words = [word for word in words[2:] if word not in ("--tflops", "312")]
            ok(reproduce(*words, *([] if {"--measured", "--list", "--dry_run"} & {*words} else ["--dry_run"])), line)
        if words[:2] == ["-m", "experiments.analyze"]:  # needs what the commands before it have trained
            assert words[2] in ANALYSES, line
        if program != "lgx" or "s3://" in line:  # the tests of buckets run these
            continue
        if any("hf://" in word for word in words):  # run by tests/artifacts/test_hub_sources.py
            continue
        command = words[0]
        if ">" in words:
            Path(words.pop()).write_text(lgx(*words[:-1]).out)
            words.pop()
        untrained = any(run in line for run in ("runs/text_pocket/", "runs/mine/lm/", "runs/mine/texts/"))
        if untrained and command not in TRAINING:  # needs what the commands before it have trained
            continue
        images = command == "predict" and is_for_exported(words[1:])
        small = {"my_images/test": "my_images", "runs/mine/reviews/seed0": "minilm"}
        words = [small.get(word, word) for word in words]
        if "--int8" in words:  # needs class folders: test_the_five_commands_from_images_to_a_network runs it
            del words[words.index("--int8") : words.index("--int8") + 2]
        if command in TRAINING and not images:  # parsed and checked completely, not trained
            words = [w for w in words if w not in ("--ckpt_path", "last", "best")] + ["--print_config"]
        elif command == "sweep":
            words += ["--dry_run"]
        elif command in ("init", "export"):  # several pages use the same place
            words += ["--force"]
        elif command == "extract":  # the replacement was selected on two data sets
            words = ["1" if w == "2" else w for w in words]
        elif command == "embed" and ("my_images" in words or "pocket" in line):  # small images replace every set
            words[words.index("--data") + 1] = "classes/my_images"
        elif words[:2] == ["data", "prepare"]:
            words = ["data", "prepare", "--help"]
        ok(lgx(*words), line)
        ran.append(command)
    return set(ran)


def run_line(line: str) -> None:
    """Run a command of a page on small data, also one whose output goes to a file."""
    words = [*shlex.split(line)[1:]]
    words += ["--trainer.max_epochs=1"] * (words[0] == "fit") + ["--most_lost=100"] * ("--int8" in words)
    result = ok(lgx(*words[: words.index(">")] if ">" in words else words), line)
    if ">" in words:
        Path(words[-1]).write_text(result.out)


def first_block(page: str) -> tuple[str, str]:
    """The section on pretrained networks of a page, and its first commands."""
    section = (ROOT / page).read_text().split("## From a pretrained ViT")[-1].split("\n## ")[0]
    return section, re.findall(r"```bash\n(.*?)```", section, re.DOTALL)[0]


@pytest.mark.usefixtures("shallow")
@pytest.mark.parametrize(("page", "count"), [("README.md", 4), ("docs/tutorials/pretrained-vit.md", 5)])
def test_the_first_commands_of_a_page_lead_from_a_file_of_weights_to_a_small_network(
    tmp_path, monkeypatch, page, count
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    write_deit_tiny(tmp_path / "deit_tiny.safetensors")
    write_images(tmp_path / "my_images", {"train": 40})
    section, block = first_block(page)
    lines = block.replace("\\\n", " ").strip().splitlines()
    assert len(lines) == count
    for line in lines:
        run_line(line.replace("--head 5", "--head 3").replace("--patch-size 8", "--patch-size 16"))
    ancestor = timm.create_model("local-dir:ancestor", pretrained=True)
    for code in re.findall(r"```python\n(.*?)```", section, re.DOTALL):
        names: dict[str, Any] = {}
        exec(code, names)
        assert names["model"](torch.zeros(1, 3, 64, 64)).shape == (1, 3)
        assert names["start"].pretrained_cfg["mean"] == tuple(ancestor.pretrained_cfg["mean"])
    if count == 5:
        small = timm.create_model("local-dir:small_network", pretrained=True)
        assert len(small.blocks) == 6 < len(ancestor.blocks)
    else:
        assert run_onnx("small.onnx")[0](torch.zeros(2, 3, 64, 64)).shape == (2, 3)


@pytest.mark.usefixtures("workplace")
def test_the_python_of_the_reference_runs():
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "docs/api.md").read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["model"].num_classes == 5


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_the_notebook_runs_after_the_first_steps(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "experiments").symlink_to(ROOT / "experiments")
    ok(lgx("data", "prepare", "pocket", "--root", "data"))
    for name in ("ancestor", "sws"):
        ok(lgx("fit", "--config", f"experiments/sws/demo/{name}.yaml", "--trainer.max_epochs=2"))
    cells = json.loads((ROOT / "docs/tutorials/python.ipynb").read_text())["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    done = python("-c", code, timeout=500)
    assert done.returncode == 0, done.stderr[-2000:]
    assert "1438 training images" in done.stdout
    assert Path("my_digits.safetensors").is_file()
