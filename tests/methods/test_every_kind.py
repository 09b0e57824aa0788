"""Every cell of the table of methods and kinds: one step of training where a method trains, and a descendant."""

import json
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from lgx.architectures import parse_for
from lgx.artifacts.learngene import Learngene
from lgx.core.task import Task
from lgx.initialization import Initializer, initialize
from lgx.methods.lsamd.selection import SelectionRun, extract_learngene
from lgx.methods.registry import specs
from lgx.methods.spec import MethodSpec
from tests.methods.test_on_a_gpu import OPTIONS, TEACHER
from tests.support import fake_masks
from tests.support.command_line import arguments, lgx, ok
from tests.support.fake_text import SIZE
from tests.support.gpt2 import texts
from tests.support.label_tables import write_labeled

pytestmark = pytest.mark.slow
IMAGES = "depth={},embed_dim=16,num_heads=2,patch_size=4,img_size={}"
TEXTS = "hf:depth={},embed_dim=16,num_heads=2,max_len=16,vocab_size={},type=llama"
CLASSES = {"classification": 3, "segmentation": 150, "multilabel": 3, "text": 2, "language": SIZE}
DEPTHS = {"pretrained": 4, "simple_lg": 5, "learngene_pool": 2}
"""Depths of descendants, from sources of four layers, and of instances; of all others 3."""


def arch_of(kind: str, depth: int) -> str:
    if kind in ("text", "language"):
        return TEXTS.format(depth, SIZE)
    return IMAGES.format(depth, 24 if kind == "segmentation" else 16)


@pytest.fixture(scope="module")
def data(images: Path, text_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[str]]:
    """The options of a tiny set of each kind."""
    folder = tmp_path_factory.mktemp("sets")
    texts = "\n".join(json.dumps({"text": f"the document {k} has {'words ' * (k % 7)}"}) for k in range(40))
    (folder / "texts.jsonl").write_text(texts)
    words = ["--data.max_len=16", f"--data.vocab_size={SIZE}", f"--data.tokenizer={text_root}/gpt2_vocab"]
    masks, labeled = fake_masks.write_all(folder / "masks"), write_labeled(folder / "labeled")
    return {
        "classification": ["--data=ImageFolderData", f"--data.root={images}", "--data.img_size=16"],
        "segmentation": ["--data=ADE20K", f"--data.root={masks}", "--data.img_size=24"],
        "multilabel": ["--data=MultiLabelFolderData", f"--data.root={labeled}", "--data.img_size=16"],
        "text": ["--data=SST2", f"--data.root={text_root}", *words],
        "language": ["--data=TextFiles", f"--data.root={folder / 'texts.jsonl'}", *words],
    }


@pytest.fixture(scope="module")
def ancestors(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Path]:
    """Files of untrained networks by kind."""
    folder, found = tmp_path_factory.mktemp("ancestors"), {}
    for kind, classes in CLASSES.items():
        architecture = parse_for(arch_of(kind, 4), kind, classes)
        path = found[kind] = folder / f"{kind}.learngene.safetensors"
        task = {"name": "shapes", "mean": [0.4, 0.5, 0.6], "std": [0.2, 0.2, 0.2]}
        about = {} if architecture.reads_text else {"task": task}
        Learngene("ancestor", architecture, dict(architecture.build().state_dict()), **about).save(path)
    return found


def options_of(name: str, kind: str, ancestor: Path) -> list[str]:
    """The options of a method for one kind; texts have labels that ``Nested`` does not read."""
    known = [*OPTIONS[name], *([TEACHER] if name == "Distill" else [])]
    if kind in ("text", "language"):
        known = [o.replace('["depth', '["hf:depth') for o in known if o != "--data.labels=false"]
        known += ["--model.set=LLAMAs-1K"] * ("--model.set_size=2" in known)
    return [str(ancestor).join(option.split("{ancestor}")) for option in known]


def starts(spec: MethodSpec, source: Path | None, kind: str, **options: object) -> None:
    """A descendant of another depth has the source's parameters, and computes."""
    depth, classes = DEPTHS.get(spec.name, 3), CLASSES[kind]
    wanted, task = parse_for(arch_of(kind, depth), kind, classes), Task("shapes", classes)
    module, _, name = str(spec.initializer).partition(":")
    maker: Any = getattr(import_module(module), name)
    initializer: Initializer = maker(**options) if source is None else maker(str(source), **options)
    started = initialize(wanted, initializer, task, head="keep" if spec.learngene in (None, "network") else "new")
    assert started.taken or spec.name == "random"
    inputs = texts(9, 9, vocab_size=SIZE) if wanted.reads_text else torch.randn(2, 3, *[wanted.img_size] * 2)
    assert started.model.eval()(inputs).isfinite().all()


@pytest.mark.parametrize(("method", "kind"), [(s.name, kind) for s in specs().values() for kind in s.kinds])
def test_a_method_trains_and_starts_a_descendant_of_each_kind_that_it_knows(method, kind, data, ancestors, tmp_path):
    spec = specs()[method]
    ancestor = ancestors[kind]
    if spec.module is None or method == "pretrained":
        source = None if method in ("random", "mimetic") else ancestor
        folder = data[kind][1].removeprefix("--data.root=")
        starts(spec, source, kind, **({"data": folder, "images": 4} if method == "snapvit" else {}))
        if spec.module is None:
            return
    model = spec.module.rpartition(":")[2]
    base = [w for w in arguments("fit", model, tmp_path, tmp_path) if not w.startswith(("--data", "--model.arch"))]
    own = [*data[kind], "--data.batch_size=4", f"--model.arch={arch_of(kind, 4)}", "--name=a"]
    ok(lgx(*base, *own, "--trainer.max_steps=1", *options_of(model, kind, ancestor)))
    run = tmp_path / "test/a/seed0"
    if method == "lsamd":
        file = tmp_path / "lsamd.learngene.safetensors"
        found = SelectionRun.load(run)
        shares = {"branches.0.base_share": torch.tensor([0.0, 1.0, 0.0, 1.0])}  # after one step none is chosen
        extract_learngene([SelectionRun(found.about, {**found.state, **shares})], 0).save(file)
    else:
        file = run / "final.learngene.safetensors"
    if spec.initializer and method != "pretrained":
        starts(spec, file, kind)
