"""Segmentation: masks, joint transforms, the linear decoder, mIoU, and training through the command line."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from torch.nn import functional as F

from data_modules import ADE20K, MultiTask
from data_modules.catalogue import OFFICIAL, open_set
from data_modules.prepare import bring
from data_modules.segmentation import SegmentationSet
from data_modules.transforms import MaskTransform
from lgx.architectures import ViTArchitecture, name_of, parse_architecture
from lgx.artifacts.export import write_descendant
from lgx.artifacts.learngene import Learngene, load_checkpoint
from lgx.components.losses import label_loss
from lgx.components.metrics import metric_names, metrics_for, update_metrics
from lgx.components.teacher import Teacher
from lgx.core.batch import IGNORE, Task
from lgx.core.rows import read_rows
from lgx.errors import UserError
from lgx.initialization import initialize
from lgx.methods import Pretrained
from tests.support import fake_data
from tests.support.command_line import arguments, lgx
from tests.support.images import write_images

SPLITS = ("train", "val", "test")
SMALL = "depth=2,embed_dim=16,num_heads=2,patch_size=4,img_size=24"


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """Root with all segmentation sets, and 48 images of three shapes to classify."""
    place = tmp_path_factory.mktemp("masks")
    for write in fake_data.MASKED_FORMATS.values():
        write(place)
    write_images(place / "shapes", {"train": 48, "val": 9, "test": 12})
    return place


def module(name: str, root: Path, **options) -> SegmentationSet:
    made = OFFICIAL[name](root=str(root), **{"img_size": 24, "batch_size": 4, "val_fraction": 0.2, **options})
    assert isinstance(made, SegmentationSet)
    return made


# -- the data --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "sizes", "classes"),
    [
        ("ade20k", [32, 8, 8], {0, 4, 19, 149, IGNORE}),
        ("voc12", [8, 2, 6], {0, 1, 20, IGNORE}),
        ("voc12_aug", [19, 5, 6], {0, 1, 20, IGNORE}),
    ],
)
def test_masks_are_read_into_disjoint_splits(root, name, sizes, classes):
    made = module(name, root)
    assert made.is_present(root)
    task = made.task
    assert (task.kind, task.metric, task.num_classes) == ("segmentation", "miou", made.info.num_classes)
    pixels = []
    for split, size in zip(SPLITS, sizes, strict=True):
        images = made.read(split)
        assert len(images) == size
        examples = [images[i] for i in range(size)]
        assert {int(c) for _, mask in examples for c in np.unique(mask)} == classes
        pixels += [image.tobytes() for image, _ in examples]
    assert len(set(pixels)) == sum(sizes)
    made.setup("fit")
    batch = next(iter(made.train_dataloader()))
    assert batch.inputs.shape == (4, 3, 24, 24)
    assert (batch.targets.shape, batch.targets.dtype, batch.task) == ((4, 24, 24), torch.int64, name)
    assert set(batch.targets.unique().tolist()) <= classes


def test_val_is_a_seeded_draw_and_limits_draw_alike(root):
    def held(**options) -> list[int]:
        return module("ade20k", root, **options).read("val").indices.tolist()

    assert held() == held() != held(split_seed=1)
    few = module("ade20k", root, limit_train=5)
    few.setup("fit")
    assert few.task.num_train == 5
    more = module("ade20k", root, limit_train=9)
    more.setup("fit")
    assert set(few.examples("train").indices) < set(more.examples("train").indices)


@settings(max_examples=40)
@given(st.integers(0, 10_000), st.sampled_from(["none", "crop_flip"]), st.integers(40, 90), st.integers(40, 90))
def test_a_mask_stays_where_its_image_is(seed, augment, height, width):
    rng = np.random.default_rng(seed)
    mask = np.zeros((height, width), np.uint8)
    y, x = rng.integers(0, height - 16), rng.integers(0, width - 16)  # one: between two there may be less than a pixel
    mask[y : y + 16, x : x + 16] = 1
    image = Image.fromarray(mask * 255).convert("RGB")
    torch.manual_seed(seed)
    task = Task("t", 2, img_size=64, mean=(0.5,) * 3, std=(0.5,) * 3)
    inputs, targets = MaskTransform(task, augment)(image, mask)
    white = inputs.mean(dim=0) > 0
    assert set(targets.unique().tolist()) <= {0, 1}
    inner = F.avg_pool2d(targets[None].float(), 5, stride=1, padding=2)[0]
    sure = (inner == 0) | (inner == 1)  # interpolation may differ at the edges of a shape
    sure[[0, 1, -1, -2]] = sure[:, [0, 1, -1, -2]] = False
    assert torch.equal(white[sure], targets[sure] == 1)


def test_augmentation_draws_crops_and_flips_by_seed(root):
    def first(**options):
        made = module("ade20k", root, augment="crop_flip", **options)
        made.setup("fit")
        return next(iter(made.train_dataloader()))

    one, same, other = first(), first(), first(seed=1)
    assert torch.equal(one.inputs, same.inputs)
    assert torch.equal(one.targets, same.targets)
    assert not torch.equal(one.targets, other.targets)


def test_a_folder_that_is_unpacked_is_linked_and_anything_else_refused(root, tmp_path):
    bring(ADE20K, tmp_path / "data", root / "ade20k", download=False)
    assert len(module("ade20k", tmp_path / "data").read("test")) == 8
    (tmp_path / "empty").mkdir()
    with pytest.raises(UserError, match=r"expected ADEChallengeData2016/ or ADEChallengeData2016\.zip"):
        bring(ADE20K, tmp_path / "other", tmp_path / "empty", download=False)
    with pytest.raises(UserError, match=r"voc12_aug cannot be downloaded: to VOCdevkit/VOC2012 of voc12 add"):
        bring(OFFICIAL["voc12_aug"], tmp_path / "other", None, download=True)


def test_batches_of_both_kinds_come_from_one_module(root):
    tasks = ("ade20k", str(root / "shapes"), "voc12")
    both = MultiTask(tasks=tasks, root=str(root), img_size=24, batch_size=6, augment="crop_flip", limit_eval=3)
    assert (both.task.kind, both.task.metric) == ("classification", "score")
    alike = MultiTask(tasks=("ade20k", "voc12"), root=str(root), img_size=24)
    assert (alike.task.kind, alike.task.metric, alike.num_classes) == ("segmentation", "miou", 150)
    both.setup("fit")
    shapes = {batch.task: tuple(batch.targets.shape) for batch in both.train_dataloader()}
    assert shapes == {"ade20k": (6, 24, 24), "shapes": (6,), "voc12": (6, 24, 24)}
    assert [(b.task, len(b.targets)) for b in both.val_dataloader()] == [("ade20k", 3), ("shapes", 3), ("voc12", 1)]


# -- network, metrics and loss ---------------------------------------------------------------------------------------


def test_the_decoder_scores_each_patch_and_upsamples():
    small = parse_architecture(SMALL, num_classes=5)
    pixels = small.replace(kind="segmentation")
    torch.manual_seed(0)
    vit, decoder = small.build().eval(), pixels.build().eval()
    torch.nn.init.normal_(vit.head.weight)
    decoder.load_state_dict(vit.state_dict())
    images = torch.randn(2, 3, 24, 24)
    logits = decoder(images)
    assert logits.shape == (2, 5, 24, 24)
    tokens = vit.forward_features(images)[:, 1:]
    scores = torch.stack([vit.head(tokens[:, i]) for i in range(36)], dim=-1).view(2, 5, 6, 6)
    torch.testing.assert_close(logits, F.interpolate(scores, scale_factor=4, mode="bilinear"))
    torch.testing.assert_close(decoder.forward_head(decoder.forward_features(images), pre_logits=True), tokens.mean(1))
    assert (pixels.spec(), name_of(pixels)) == (small.spec(), name_of(small))
    six = ViTArchitecture(6, 384, 6, kind="segmentation")
    assert name_of(six) == "6-Small"
    old = {key: value for key, value in small.to_dict().items() if key != "kind"}
    assert ViTArchitecture.from_dict(old) == small
    shared = pixels.replace(depth=2, stages=(2,)).build()
    assert shared.blocks[0] is shared.blocks[1]
    with pytest.raises(UserError, match="a ViT is for classification or segmentation of images, not for text"):
        small.replace(kind="text")


def naive_miou(predicted: np.ndarray, targets: np.ndarray, classes: int) -> float:
    counted = targets != IGNORE
    found = []
    for c in range(classes):
        union = counted & ((predicted == c) | (targets == c))
        if union.any():
            found.append((union & (predicted == targets)).sum() / union.sum())
    return float(np.mean(found))


@settings(max_examples=25)
@given(st.integers(0, 1000), st.integers(2, 7))
def test_miou_is_that_of_the_whole_split_without_unlabeled_pixels(seed, classes):
    rng = torch.Generator().manual_seed(seed)
    task = Task("t", classes + 2, kind="segmentation", metric="miou")  # two classes never occur
    metrics, logits, targets = metrics_for(task), [], []
    assert metric_names(task) == ["miou", "acc", "loss"]
    for size in (3, 1):
        logits.append(torch.randn(size, classes + 2, 4, 5, generator=rng))
        logits[-1][:, classes:] = -9
        target = torch.randint(classes, (size, 4, 5), generator=rng)
        targets.append(target.masked_fill(torch.rand(size, 4, 5, generator=rng) < 0.3, IGNORE))
        update_metrics(metrics, logits[-1], targets[-1])
    predicted, wanted = torch.cat(logits).argmax(1).numpy(), torch.cat(targets).numpy()
    counted = wanted != IGNORE
    values = {name: float(value) for name, value in metrics.compute().items()}
    assert values["miou"] == pytest.approx(naive_miou(predicted, wanted, classes + 2), abs=1e-6)
    assert values["acc"] == pytest.approx((predicted == wanted)[counted].mean(), abs=1e-6)
    assert values["n"] == 4
    rows = torch.cat(logits).permute(0, 2, 3, 1)[torch.from_numpy(counted)]
    mean = F.cross_entropy(rows, torch.from_numpy(wanted[counted]))
    assert values["loss"] == pytest.approx(float(mean), rel=1e-5)
    assert float(label_loss(torch.cat(logits), torch.cat(targets))) == pytest.approx(float(mean), rel=1e-5)


def test_a_batch_without_labels_has_no_loss_and_a_finite_gradient():
    logits = torch.randn(1, 3, 4, 4, requires_grad=True)
    loss = label_loss(logits, torch.full((1, 4, 4), IGNORE))
    loss.backward()
    assert loss.item() == 0
    assert logits.grad is not None
    assert not logits.grad.any()


def test_classification_keeps_class_255():
    metrics = metrics_for(Task("t", 300))
    logits = F.one_hot(torch.tensor([255, 1]), 300).float()
    update_metrics(metrics, logits, torch.tensor([255, 255]))
    assert float(metrics["acc"].compute()) == 0.5
    with pytest.raises(UserError, match="task t: metric 'speed' is unknown; known are acc, miou"):
        metrics_for(Task("t", 3, metric="speed"))


# -- starts ----------------------------------------------------------------------------------------------------------


def save(path: Path, kind: str, classes: int = 3) -> str:
    architecture = parse_architecture(SMALL, num_classes=classes, kind=kind)
    Learngene("ancestor", architecture, dict(architecture.build().state_dict())).save(path)
    return str(path)


@pytest.mark.parametrize("kind", ["classification", "segmentation"])
def test_a_head_of_another_kind_is_never_taken_along(tmp_path, kind):
    source = save(tmp_path / "a.learngene.safetensors", kind)
    other = "segmentation" if kind == "classification" else "classification"
    architecture = parse_architecture(SMALL, num_classes=3, kind=other)
    with pytest.raises(UserError, match=f"its head was made for {kind}, the descendant is for {other}; ask for a new"):
        initialize(architecture, Pretrained(source))
    start = initialize(architecture, Pretrained(source), head="new")
    assert start.random == ("head.weight", "head.bias")
    assert "head.weight" in initialize(architecture.replace(kind=kind), Pretrained(source)).taken


def test_an_ancestor_of_another_kind_cannot_teach(tmp_path):
    source = save(tmp_path / "a.learngene.safetensors", "classification")
    task = Task("masks", 3, kind="segmentation", metric="miou", img_size=24)
    with pytest.raises(UserError, match="is for classification, but task masks is segmentation; adapt it first"):
        Teacher.load(source, task)
    teacher = Teacher.load(save(tmp_path / "b.learngene.safetensors", "segmentation"), task)
    assert teacher(torch.randn(2, 3, 24, 24)).shape == (2, 3, 24, 24)


def test_plain_timm_reads_an_exported_network_as_its_card_says(tmp_path, monkeypatch):
    architecture = parse_architecture(SMALL, num_classes=5, kind="segmentation")
    network = architecture.build().eval()
    torch.nn.init.normal_(network.head.weight)
    write_descendant(tmp_path / "model", network, architecture)
    card = (tmp_path / "model" / "README.md").read_text()
    assert "image-segmentation" in card
    (code,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
    known = {"images": torch.randn(2, 3, 24, 24)}
    monkeypatch.chdir(tmp_path)
    exec(code, known)
    torch.testing.assert_close(known["logits"], network(known["images"]))


# -- training --------------------------------------------------------------------------------------------------------


def command(root: Path, runs: Path, *options: object, name: str = "Finetune", verb: str = "fit") -> list[str]:
    args = arguments(verb, name, root, runs, f"--model.arch={SMALL}", "--model.scheduler=null", *options)
    kept = [
        a for a in args if not a.startswith("--data") and a != "--model.scheduler=lgx.components.optim.WarmupCosine"
    ]
    data = ["--data=ADE20K", f"--data.root={root}", "--data.img_size=24", "--data.batch_size=4"]
    return [*kept, *data, *(str(o) for o in options if str(o).startswith("--data"))]


@pytest.fixture(scope="module")
def run(root, tmp_path_factory) -> Path:
    """Run folder of an ancestor, one epoch on the fake ADE20K."""
    runs = tmp_path_factory.mktemp("segmented")
    options = ["--model.optimizer.lr=0.02", "--name=a", "--test_start=true", "--test_end=true"]
    done = lgx(*command(root, runs, *options, name="Ancestor"))
    assert done.code == 0, done.err
    return runs / "test" / "a" / "seed0"


def test_an_epoch_raises_miou_and_all_metrics_are_written(run):
    rows = read_rows(run / "results.csv")
    assert [(r.split, r.epochs, r.metric, r.n) for r in rows] == [
        *(("test", 0, metric, 8) for metric in ("miou", "acc", "loss")),
        *(("val", 1, metric, 4) for metric in ("miou", "acc", "loss")),
        ("train", 1, "loss", 36),
        *(("test", 1, metric, 8) for metric in ("miou", "acc", "loss")),
    ]
    values = {(r.split, r.epochs, r.metric): r.value for r in rows}
    assert values["test", 0, "miou"] < 0.05
    assert values["test", 1, "miou"] > 0.25
    best = load_checkpoint(run / "checkpoints" / "best.ckpt")
    assert (best["lgx"]["task"]["kind"], best["lgx"]["architecture"]["kind"]) == ("segmentation",) * 2
    learngene = Learngene.load(run / "best.learngene.safetensors")
    assert learngene.architecture.kind == "segmentation"
    assert learngene.metrics["val/miou"] == pytest.approx(values["val", 1, "miou"])


def test_a_run_resumes_and_its_learngene_starts_and_teaches_others(root, run, tmp_path):
    learngene = f"{run}/best.learngene.safetensors"
    tested = lgx(*command(root, tmp_path, f"--ckpt_path={run}/checkpoints/best.ckpt", name="Ancestor", verb="test"))
    assert tested.code == 0, tested.err
    keep = ["--model.initializer=Pretrained", f"--model.initializer.source={learngene}"]
    done = lgx(*command(root, tmp_path, *keep, "--name=kept", "--test_start=true"))
    assert done.code == 0, done.err
    before = [r.value for r in read_rows(run / "results.csv") if (r.split, r.epochs, r.metric) == ("test", 1, "miou")]
    rows = read_rows(tmp_path / "test/kept/seed0/results.csv")
    assert [r.value for r in rows if (r.split, r.epochs, r.metric) == ("test", 0, "miou")] == pytest.approx(before)
    other = lgx(*command(root, tmp_path, *keep, "--name=other", "--data=VOC12"))
    assert "its head has 150 classes, the descendant 21" in other.sentence


def test_a_checkpoint_of_another_kind_is_not_resumed(root, run, tmp_path):
    about = load_checkpoint(run / "checkpoints" / "best.ckpt")
    del about["lgx"]["architecture"]["kind"]  # as classifiers of earlier versions were saved
    torch.save(about, tmp_path / "old.ckpt")
    done = lgx(*command(root, tmp_path, f"--ckpt_path={tmp_path}/old.ckpt", name="Ancestor", verb="test"))
    assert (done.code, "for classification, but this run has" in done.sentence) == (2, True)


# -- what a user reads when something is wrong -----------------------------------------------------------------------


def test_unknown_labels_name_file_and_value(tmp_path):
    fake_data.ade20k(tmp_path, train=10)
    fake_data.voc12(tmp_path)
    path = tmp_path / "ade20k/ADEChallengeData2016/annotations/validation/ADE_val_00000001.png"
    for label in (151, 300):
        mask = np.full((24, 32), 3, np.int32)
        mask[5, 7] = label
        Image.fromarray(mask.astype(np.uint8 if label < 256 else np.uint16)).save(path)
        with pytest.raises(UserError, match=rf"ade20k test: .*ADE_val_00000001\.png .* {label}; expected 0 to 150$"):
            module("ade20k", tmp_path).read("test")[0]
    path = next((tmp_path / "voc12").rglob("2007_000000.png"))
    Image.fromarray(np.full((24, 32), 21, np.uint8)).save(path)
    with pytest.raises(UserError, match=r"2007_000000\.png has a pixel labeled 21; expected 0 to 20 or 255$"):
        module("voc12", tmp_path).read("test")[0]
    Image.new("RGB", (32, 24)).save(path)
    with pytest.raises(UserError, match=r"2007_000000\.png is a picture in colors; expected a mask"):
        module("voc12", tmp_path).read("test")[0]


def test_a_mask_of_another_size_names_both_even_from_a_loader_process(tmp_path):
    fake_data.ade20k(tmp_path, train=10)
    path = tmp_path / "ade20k/ADEChallengeData2016/annotations/validation/ADE_val_00000003.png"
    Image.fromarray(np.ones((24, 31), np.uint8)).save(path)
    made = module("ade20k", tmp_path, num_workers=1)
    made.setup("test")
    with pytest.raises(UserError, match=r"^ade20k test: .*ADE_val_00000003\.png has 31 x 24 pixels, but its image "):
        list(made.test_dataloader())


def test_missing_folders_masks_and_lists_are_named(tmp_path):
    with pytest.raises(UserError, match=r"ade20k: nothing at .*ade20k; run `lgx data prepare ade20k --root"):
        module("ade20k", tmp_path).setup("fit")
    fake_data.ade20k(tmp_path, train=10)
    base = tmp_path / "ade20k/ADEChallengeData2016/annotations"
    (base / "training/ADE_train_00000004.png").unlink()
    with pytest.raises(UserError, match=r"1 of 10 images have no mask in .*, first ADE_train_00000004\.png"):
        module("ade20k", tmp_path).read("train")
    (base / "validation").rename(base / "elsewhere")
    with pytest.raises(UserError, match=r"ade20k test: .*annotations/validation is missing"):
        module("ade20k", tmp_path).read("test")
    fake_data.voc12_aug(tmp_path)
    listed = next(tmp_path.rglob("trainaug.txt"))
    listed.write_text(listed.read_text() + "2007_000002\n")
    with pytest.raises(UserError, match=r"trainaug\.txt names 1 test images, first 2007_000002"):
        module("voc12_aug", tmp_path).read("train")
    listed.unlink()
    with pytest.raises(UserError, match=r"trainaug\.txt is missing; expected one image name per line"):
        module("voc12_aug", tmp_path).read("train")
    next(tmp_path.rglob("JPEGImages/2007_000001.jpg")).write_bytes(b"no jpeg")
    with pytest.raises(UserError, match=r"2007_000001\.jpg cannot be decoded .*; restore the file"):
        module("voc12_aug", tmp_path).read("test")[1]


def test_shards_of_masks_are_refused(root, tmp_path):
    from data_modules.shards import write_shards

    made = module("voc12", root)
    with pytest.raises(UserError, match="masks cannot be written as shards"):
        write_shards(made.read("test"), tmp_path / "s", "test", replace(made.info, sizes=(8, 2, 6)))


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("Finetune", ["--model.mixup=0.8"], "model.mixup, model.cutmix: mix the labels of whole images"),
        ("Finetune", ["--data.augment=randaugment"], "data.augment: randaugment would part images and masks of ade20k"),
        (
            "LoGAH",
            ["--model.panel=[3-Tiny]"],
            "logah: hypernetworks predict classifiers, but task ade20k is segmentation",
        ),
    ],
)
def test_what_does_not_go_with_masks_is_refused(root, tmp_path, name, options, sentence):
    done = lgx(*command(root, tmp_path, *options, name=name))
    assert (done.code, sentence in done.sentence) == (2, True), done.err


def test_one_network_for_both_kinds_and_predictions_are_refused(root, run, tmp_path):
    both = [a for a in command(root, tmp_path, name="Ancestor") if not a.startswith("--data")]
    both += ["--data=MultiTask", f"--data.tasks=[ade20k,{root}/shapes]", f"--data.root={root}", "--data.img_size=24"]
    done = lgx(*both)
    assert done.code == 2
    assert (
        "ancestor trains one network for tasks of one kind, but these are ade20k (segmentation, miou)" in done.sentence
    )
    predicted = lgx(
        *command(root, tmp_path, f"--ckpt_path={run}/checkpoints/best.ckpt", name="Ancestor", verb="predict")
    )
    assert (predicted.code, "predict: writes one class per image" in predicted.sentence) == (2, True)


def test_an_ade20k_member_is_found_by_name(root):
    assert open_set("ade20k", str(root), img_size=24).task.kind == "segmentation"


# -- through files ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["model", "weights.safetensors"])
def test_init_and_export_keep_the_kind(root, run, tmp_path, form):
    learngene, out = f"{run}/best.learngene.safetensors", tmp_path / form
    done = lgx("init", "--source", learngene, "--arch", SMALL, "--out", out)
    assert done.code == 0, done.err
    assert "head" in done.out.split("random")[0]
    keep = ["--model.initializer=Pretrained", f"--model.initializer.source={out}", "--test_start=true"]
    again = lgx(*command(root, tmp_path, *keep, "--name=again"))
    assert again.code == 0, again.err
    before = [r.value for r in read_rows(run / "results.csv") if (r.split, r.epochs, r.metric) == ("test", 1, "miou")]
    rows = read_rows(tmp_path / "test/again/seed0/results.csv")
    assert [r.value for r in rows if (r.split, r.epochs, r.metric) == ("test", 0, "miou")] == pytest.approx(before)
    classifier = parse_architecture(SMALL, num_classes=150)
    with pytest.raises(UserError, match="its head was made for segmentation"):
        initialize(classifier, Pretrained(str(out)))


def test_distillation_compares_the_classes_of_each_pixel(root, run, tmp_path):
    from lgx.components.losses import distillation_loss

    student, teacher = torch.randn(2, 2, 5, 3, 4)
    rows = [logits.permute(0, 2, 3, 1).reshape(-1, 5) for logits in (student, teacher)]
    torch.testing.assert_close(distillation_loss(student, teacher, 2.0), distillation_loss(*rows, 2.0))
    done = lgx(*command(root, tmp_path, f"--model.ancestor={run}/best.learngene.safetensors", name="Distill"))
    assert done.code == 0, done.err
