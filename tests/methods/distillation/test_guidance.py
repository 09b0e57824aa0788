"""Distillation of logits and features, with labels and without."""

import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import timm
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.functional import cross_entropy
from torch.testing import assert_close

from lgx.architectures import ViTArchitecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.components.features import FeatureProjection, Features, _patches, feature_losses, read_features
from lgx.components.teacher import Teacher
from lgx.core.batch import Batch
from lgx.core.rows import read_rows
from lgx.core.task import IGNORE, Task
from lgx.methods import Distill
from tests.support.command_line import ARCH, arguments, lgx, ok

FEATURES = "--model.guidance=features"
UNLABELED = "--data.labels=false"
TINY = ViTArchitecture(2, 16, 2, patch_size=4, img_size=16, num_classes=3)


@pytest.fixture
def bare(images: Path, tmp_path: Path) -> Path:
    """A folder with images, and others in a folder in it, without classes."""
    files = sorted((images / "train").rglob("*.png"))
    for number, file in enumerate(files):
        place = tmp_path / "bare" / ("more" if number % 2 else "")
        place.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, place / f"{number}.png")
    return tmp_path / "bare"


def features(seed: int, batch: int = 2, width: int = 5, grid: int = 3) -> Features:
    generator = torch.Generator().manual_seed(seed)
    shapes = (batch, width), (batch, width, grid, grid)
    return Features(*(torch.randn(shape, generator=generator) for shape in shapes))


def test_the_feature_loss_is_that_of_the_formula_image_by_image():
    student, teacher = features(0), features(1)
    losses, similarity = feature_losses(student, teacher)
    for image in range(2):
        cosine = F.cosine_similarity(student.summary[image], teacher.summary[image], dim=0)
        total = Tensor([0.0])
        for row in range(3):
            for column in range(3):
                own, wanted = student.patches[image, :, row, column], teacher.patches[image, :, row, column]
                angle = 1 - F.cosine_similarity(own, wanted, dim=0)
                total = total + 0.9 * angle + 0.1 * F.smooth_l1_loss(own, wanted)
        assert_close(losses[image], 1 - cosine + total[0] / 9)
        assert_close(similarity[image], cosine)


def test_patches_keep_their_places_in_a_grid_that_is_not_square():
    assert _patches(SimpleNamespace(num_prefix_tokens=1), torch.randn(2, 2, 3)).shape == (2, 3, 1, 1)
    maps = torch.randn(2, 3, 4, 5)
    assert torch.equal(_patches(SimpleNamespace(output_fmt="NHWC"), maps), maps.permute(0, 3, 1, 2))
    found, output = read_features(timm.create_model("test_resnet").eval(), torch.randn(2, 3, 48, 32))
    assert torch.equal(found.patches, output)
    vit = timm.create_model("vit_tiny_patch16_224", img_size=(48, 32), depth=1).eval()
    found, output = read_features(vit, torch.randn(2, 3, 48, 32))
    assert torch.equal(found.summary, output[:, 0])
    assert torch.equal(found.patches[:, :, 2, 1], output[:, 6])  # the last of 3 x 2 patches behind the class token


def test_equal_features_have_no_loss_other_grids_are_resampled_and_equal_widths_projected_by_the_identity():
    own = features(0, grid=4)
    assert_close(feature_losses(own, own)[0], torch.zeros(2), rtol=0, atol=1e-5)
    finer = Features(own.summary, own.patches.repeat_interleave(2, dim=2).repeat_interleave(2, dim=3))
    constant = Features(own.summary, torch.ones(2, 5, 4, 4))
    assert feature_losses(own, finer)[0].max() < feature_losses(own, features(9, grid=8))[0].min()
    coarse = Features(own.summary, torch.ones(2, 5, 1, 1))
    assert_close(feature_losses(constant, coarse)[0], torch.zeros(2), rtol=0, atol=1e-5)
    own = features(0, width=6)
    projected = FeatureProjection(6, 6, 4)(own)
    assert torch.equal(projected.summary, own.summary)
    assert projected.patches.shape == (2, 4, 3, 3)


@pytest.mark.parametrize(
    ("model", "options", "layers"),
    [
        ("SWS", ["--model.stages=[2,2]"], 2),
        pytest.param("TLEG", [], 2, marks=pytest.mark.slow),
        pytest.param("MiniDeiT", ["--model.stages=[2,2]"], 2, marks=pytest.mark.slow),
        ("Distill", [], 4),
    ],
)
def test_a_headless_ancestor_teaches_with_images_of_a_bare_folder(bare, headless, tmp_path, model, options, layers):
    command = arguments("fit", model, bare, tmp_path / "runs", "--name=f", FEATURES, f"--model.ancestor={headless}")
    data = ["--data=UnlabeledFolderData", f"--data.root={bare}", "--data.img_size=16", "--data.batch_size=16"]
    ok(lgx(*command, *data, *options, "--trainer.max_epochs=2"))
    run = tmp_path / "runs/test/f/seed0"
    rows = read_rows(run / "results.csv")
    assert {(row.split, row.metric) for row in rows} == {("train", "loss"), ("val", "loss"), ("val", "agreement")}
    assert {row.n for row in rows if row.split == "val"} == {5}  # a tenth of 48
    losses = [row.value for row in rows if (row.split, row.metric) == ("val", "loss")]
    assert losses[-1] < losses[0]
    learngene = Learngene.load(run / "final.learngene.safetensors")
    assert learngene.num_layers == layers
    assert not any(name.startswith(("head", "projection")) or "local" in name for name in learngene.tensors)
    state = load_checkpoint(run / "checkpoints/best.ckpt")["state_dict"]
    assert state["network.projection.patches.weight"].shape == (24, 16)
    six = ARCH.replace("depth=4", "depth=6")
    init = ["init", "--source", run / "final.learngene.safetensors", "--arch", six]
    refused = lgx(*init, "--out", tmp_path / "no")
    assert "the images have no classes; give --num_classes" in refused.sentence
    ok(lgx(*init, "--num_classes", "7", "--out", tmp_path / "six"))
    assert load_pretrained(str(tmp_path / "six")).architecture.num_classes == 7


def test_without_labels_the_network_learns_the_ancestors_logits(fit, ancestor_file, tmp_path):
    options = (f"--model.ancestor={ancestor_file}", UNLABELED, "--name=l", "--model.optimizer.lr=0.01")
    ok(fit("SWS", "--model.stages=[2,2]", *options, "--trainer.max_epochs=3"))
    run = tmp_path / "runs/test/l/seed0"
    divergences = [r.value for r in read_rows(run / "results.csv") if (r.split, r.metric) == ("val", "loss")]
    assert 0 < divergences[-1] < divergences[0]
    learngene = Learngene.load(run / "final.learngene.safetensors")
    assert learngene.tensors["head.weight"].shape == (5, 16)  # the ancestor's classes; the images have three
    ok(lgx("test", "--config", run / "config.yaml", "--ckpt_path", "best"))
    test = {row.metric: row.n for row in read_rows(run / "results.csv") if row.split == "test"}
    assert test == {"agreement": 12, "loss": 12}


def test_labels_and_features_are_learned_together_and_a_test_does_not_need_the_ancestor(fit, headless, tmp_path):
    mine = shutil.copy(headless, tmp_path / "mine.learngene.safetensors")
    ok(fit("SWS", "--model.stages=[2,2]", FEATURES, f"--model.ancestor={mine}", "--name=b"))
    run = tmp_path / "runs/test/b/seed0"
    assert {r.metric for r in read_rows(run / "results.csv")} == {"loss", "acc"}
    assert Learngene.load(run / "final.learngene.safetensors").tensors["head.weight"].shape == (3, 16)
    Path(mine).unlink()
    ok(lgx("test", "--config", run / "config.yaml", "--ckpt_path", "best"))
    refused = lgx("export", run / "checkpoints/best.ckpt", "--out", tmp_path / "exported")
    assert "give final.learngene.safetensors" in refused.sentence


@pytest.mark.parametrize("guidance", ["logits", "features"])
def test_the_teacher_of_several_sets_reads_each_as_it_is_normalized(monkeypatch, ancestor_file, guidance):
    sets = {
        "bright": Task("bright", 5, img_size=16, mean=(0.9,) * 3, std=(0.3,) * 3),
        "dark": Task("dark", 5, img_size=16, mean=(0.1,) * 3, std=(0.2,) * 3),
    }
    method = Distill(
        arch="depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=16", num_classes=5, ancestor=ancestor_file,
        guidance=guidance, optimizer=torch.optim.SGD, alpha=1.0,
    )  # fmt: skip
    method.task, method.tasks = sets["bright"], sets
    method.teacher = Teacher.of(load_pretrained(ancestor_file), sets["bright"], features_only=guidance == "features")
    method.network = method.build_network()
    asked = []
    answer = Teacher._answer

    def note(teacher, inputs, compute):
        return answer(teacher, inputs, lambda model, own: asked.append(own) or compute(model, own))

    monkeypatch.setattr(Teacher, "_answer", note)
    pixels = torch.rand(4, 3, 16, 16)
    for task in sets.values():
        mean, std = (torch.tensor(values).view(1, 3, 1, 1) for values in task.normalization)
        method.training_losses(Batch((pixels - mean) / std, torch.zeros(4, dtype=torch.long), task.name))
    assert_close(*asked)


def test_labels_and_ancestor_share_the_loss(monkeypatch):
    method = Distill(arch=ARCH, optimizer=torch.optim.SGD, num_classes=3, ancestor="a", alpha=0.3, temperature=2.0)
    method.network = method.architecture.build()
    batch, answers = Batch(torch.randn(4, 3, 16, 16), torch.tensor([0, 1, 2, 0]), "t"), torch.randn(4, 3)
    method.teacher = answers
    monkeypatch.setattr(Distill, "_teacher_of", lambda self, batch: lambda images: answers)
    logits = method.network(batch.inputs)
    labels, ancestor = cross_entropy(logits, batch.targets), cross_entropy(logits / 2, (answers / 2).softmax(1))
    torch.testing.assert_close(method.training_losses(batch)["loss"], 0.7 * labels + 0.3 * ancestor)


def test_several_labels_are_distilled_label_by_label_where_they_are_known():
    method = Distill(
        arch=ARCH, optimizer=torch.optim.SGD, num_classes=3, kind="multilabel", ancestor="a", temperature=2.0
    )
    logits, answers, targets = torch.randn(2, 3), torch.randn(2, 3), torch.tensor([[0, 1, IGNORE], [1, IGNORE, 0]])
    known, share = targets != IGNORE, (answers / 2).sigmoid()
    parts = share * (logits / 2).sigmoid().log() + (1 - share) * (-logits / 2).sigmoid().log()
    torch.testing.assert_close(method.distilled(logits, answers, targets), -parts[known].mean())
