"""Options of auxiliary nets that contradict each other, the images or the ancestor end a run with one sentence."""

import inspect

import pytest

from lgx import methods
from lgx.errors import UserError
from lgx.methods import registry

ARCH = "embed_dim=16,num_heads=2,patch_size=4,img_size=16"
FEATURES, UNLABELED, TWO = "--model.guidance=features", "--data.labels=false", ["--model.stages=[2,2]"]
MEAN = ["--untrained", "--model.start=mean", "--model.stages=[2]", "--model.ancestor={big}"]
WRONG = [
    ("TLEG", [f"--model.arch=stages=2-2,{ARCH}"], ["leave out stages"]),
    ("WAVE", ["--model.size=5"], ["do not tile a network of width 16 with hidden width 64"]),
    ("WAVE", [f"--model.arch=stages=2-2,{ARCH}"], ["leave out stages"]),
    ("WAVE", ["--model.templates={ancestor}"], ["has no templates for attn.qkv"]),
    ("SWS", ["--model.start=mean", *TWO], ["model.start: mean", "give model.ancestor"]),
    ("SWS", [f"--model.arch={ARCH},stages=1-2-3"], ["has stages 1-2-3, but model.stages 3-3-4-3-3 have 16 layers"]),
    ("MiniDeiT", [], ["has 4 layers, but model.stages 2-2-2-2-2-2 have 12 layers"]),
    ("SWS", [*MEAN, "--model.arch=depth=2,embed_dim=48,num_heads=3,patch_size=4,img_size=16"],
     ["must not be wider", "48 of embed_dim", "the source 24"]),
    ("SWS", [*MEAN, "--model.arch=depth=2,embed_dim=24,num_heads=4,patch_size=4,img_size=16"],
     ["model.start", "num_heads=3", "num_heads=4", "with equal width also its num_heads"]),
    ("LeTs", ["--model.narrow_heads=2", "--model.narrow_depth=3", "--model.ancestor={ancestor}"],
     ["model.narrow_depth: expected an even number that divides the 4 layers"]),
    ("Nested", [UNLABELED, "--model.ancestor={big}"], ["must have the ancestor's sizes; write depth=6"]),
    ("Finetune", [UNLABELED], ["no labels", "Finetune", "ImageFolderData"]),
    ("SWS", [FEATURES, *TWO], ["model.guidance", "give model.ancestor"]),
    ("SWS", [UNLABELED, *TWO, "--model.ancestor={headless}"], ["model.guidance", "has no head", "choose features"]),
    ("SWS", [UNLABELED, FEATURES, *TWO, "--model.ancestor={headless}", "--model.mixup=0.5"], ["mix labels"]),
]  # fmt: skip


@pytest.mark.parametrize(("model", "options", "words"), WRONG)
def test_wrong_options_end_with_one_sentence(fit, ancestor, ancestor_file, headless, model, options, words):
    files = {"ancestor": ancestor / "final.learngene.safetensors", "big": ancestor_file, "headless": headless}
    given = [option.format(**files) for option in options]
    result = fit(model, *given, "--name=wrong", command="test" if "--untrained" in given else "fit")
    assert result.code == 2
    assert all(word in result.sentence for word in words), result.err


@pytest.mark.parametrize("name", [spec.module.partition(":")[2] for spec in registry.specs().values() if spec.module])
def test_a_method_refuses_every_kind_of_task_that_it_does_not_declare(name):
    method = getattr(methods, name)
    options = {"ancestor": "x"} if "ancestor" in inspect.signature(method).parameters else {}
    for kind in {"classification", "segmentation", "multilabel", "text"} - set(method.spec.kinds):
        with pytest.raises(UserError, match=f"model {name}: is for .*, but the task is {kind}"):
            method(arch="2-GPT2" if kind == "text" else f"depth=4,{ARCH}", optimizer=None, kind=kind, **options)
