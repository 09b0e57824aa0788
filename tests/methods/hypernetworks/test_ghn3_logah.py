"""GHN-3 and LoGAH train through the command line, and their predictions initialize descendants."""

import json

import pytest
import torch
from safetensors.torch import save_file

from lgx.architectures import parse_architecture
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import read_rows
from lgx.core.task import Task
from lgx.errors import UserError
from lgx.hypernet import Hypernet, HypernetConfig, load
from lgx.methods import GHN3, HypernetPrediction, LoGAH
from lgx.methods.initializers import initializer_for
from tests.support.command_line import ARCH, arguments, lgx, ok, refusal

PANEL = ["depth=2,embed_dim=16,num_heads=2", "depth=3,embed_dim=24,num_heads=3"]
TINY = [
    "--model.width=16", "--model.layers=1", "--model.heads=2", "--model.max_shape=[32,32,4,4]", "--model.set_size=5",
    f"--model.panel={json.dumps(PANEL)}", "--model.rank=4", "--model.max_size=128",
]  # fmt: skip


@pytest.fixture(scope="module")
def logah(images, tmp_path_factory):
    runs = tmp_path_factory.mktemp("logah")
    ok(lgx(*arguments("fit", "LoGAH", images, runs, *TINY, "--name=logah")))
    return runs / "test/logah/seed0"


def test_training_evaluates_every_architecture_of_the_panel(logah):
    rows = [r for r in read_rows(logah / "results.csv") if r.metric == "acc"]
    assert [(r.method, r.n, r.epochs) for r in rows] == [("logah", 9, 0)] * 2
    assert [r.architecture.startswith(name) for r, name in zip(rows, PANEL, strict=True)] == [True, True]
    state = load_checkpoint(logah / "checkpoints/last.ckpt")["state_dict"]
    assert not any("blocks.0.attn" in name for name in state)  # the executed networks are not part of the method


def test_init_says_that_a_width_was_never_trained(logah, tmp_path):
    source = logah / "final.learngene.safetensors"
    learngene = Learngene.load(source)
    trained = learngene.trained_widths
    assert trained
    assert 40 not in trained
    assert max(HypernetPrediction(str(source)).sizes().widths()) == 128 // 4
    for width, warned in ((40, True), (trained[0], False)):
        arch = f"depth=1,embed_dim={width},num_heads=1,patch_size=4,img_size=16"
        result = ok(lgx("init", "--source", source, "--arch", arch, "--out", tmp_path / "d", "--force"))
        assert (f"check     width {width}: the hypernetwork was trained on" in result.out) == warned


@pytest.mark.parametrize(
    ("options", "parameters"),
    [
        ({"width": 64, "layers": 3, "heads": 8}, 6_906_632),
        ({}, 35_810_368),
        ({"width": 256, "layers": 12, "heads": 16}, 214_668_960),
    ],
    ids=["GHN-3-T", "GHN-3-S", "GHN-3-L"],
)
def test_ghn3_has_as_many_parameters_as_the_released_ones(options, parameters):
    """The numbers are those of the released code, executed; see https://github.com/SamsungSAILMontreal/ghn3."""
    with torch.device("meta"):
        network = Hypernet(GHN3(arch=ARCH, optimizer=None, **options).config)
    assert sum(parameter.numel() for parameter in network.parameters()) == parameters


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["16-mixed", "bf16-mixed"])
def test_logah_trains_on_a_gpu_in_low_precision(fit, precision):
    options = ["--trainer.accelerator=gpu", f"--trainer.precision={precision}"]
    ok(fit("LoGAH", *TINY, "--name=g", "--test_end=true", *options))


def test_the_residual_layout_has_its_own_method_name_and_a_panel_keeps_the_patch_size_that_it_names(fit, tmp_path):
    panel = '--model.panel=["depth=2,embed_dim=16,num_heads=2,patch_size=8"]'
    ok(fit("LoGAH", *TINY, panel, "--model.layout=aligned", "--name=r"))
    rows = read_rows(tmp_path / "runs/test/r/seed0/results.csv")
    assert {row.method for row in rows} == {"logah_aligned"}
    assert "patch_size=8" in rows[0].architecture


def test_architectures_depend_only_on_seed_step_and_rank(monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "3")
    method = LoGAH(
        arch=ARCH, optimizer=torch.optim.SGD, num_classes=3, width=16, layers=1, heads=2, max_shape=(32, 32, 4, 4),
        rank=4, max_size=128, meta_batch=3, panel=("depth=2,embed_dim=16,num_heads=2",),
    )  # fmt: skip
    assert method.draw(5, 0) == method.draw(5, 0)
    assert len({tuple(method.draw(step, rank)) for step in range(4) for rank in range(2)}) == 8
    assert all(panel not in method.set for panel in method.panels["val"])


def test_a_hypernetwork_is_refused_as_classifier_and_as_teacher(fit, logah):
    best, learngene = logah / "checkpoints/best.ckpt", logah / "final.learngene.safetensors"
    predicted = fit("LoGAH", *TINY, f"--ckpt_path={best}", command="predict")
    taught = fit("Distill", f"--model.ancestor={learngene}")
    for result, words in ((predicted, "predicts parameters, not classes"), (taught, "hypernetwork of logah")):
        assert result.code == 2
        assert words in result.sentence


def test_a_random_spectrum_changes_the_blocks_matrices_only_and_keeps_their_directions(logah):
    path, architecture = str(logah / "final.learngene.safetensors"), parse_architecture(ARCH, num_classes=3)
    plain = HypernetPrediction(path)(architecture)
    flat, again = (HypernetPrediction(path, spectrum="random", seed=seed)(architecture) for seed in (0, 0))
    changed = {name for name in plain if not torch.equal(plain[name], flat[name])}
    assert changed == {name for name in plain if name.startswith("blocks.") and plain[name].ndim == 2}
    assert all(torch.equal(flat[name], again[name]) for name in flat)
    weight, before = flat["blocks.0.mlp.fc1.weight"], plain["blocks.0.mlp.fc1.weight"]
    values, old = torch.linalg.svdvals(weight), torch.linalg.svdvals(before)
    assert (weight * before).sum() > 0
    assert weight.std().item() == pytest.approx(0.02, rel=0.2)
    assert (values / values[0]).mean() > 1.5 * (old / old[0]).mean()
    leading = torch.linalg.svd(before)[0][:, 0]
    assert torch.linalg.norm(leading @ weight) == pytest.approx(values[0].item(), rel=1e-3)


def test_a_hypernetwork_file_that_does_not_fit_is_refused(logah, sws, tmp_path):
    learngene = Learngene.load(logah / "final.learngene.safetensors")
    with pytest.raises(UserError, match=r"differ: size mismatch for decoder\.basis\.weight"):
        load(learngene.tensors, {**learngene.hypernet, "max_size": 256})
    with pytest.raises(UserError, match=r"unknown key\(s\) widht"):
        load(learngene.tensors, {"widht": 16})
    with pytest.raises(UserError, match="does not store the hypernetwork's configuration"):
        load(learngene.tensors)
    with pytest.raises(UserError, match="a learngene of logah, not of ghn3"):
        initializer_for(str(logah / "final.learngene.safetensors"), "ghn3")
    with pytest.raises(UserError, match="a learngene of sws, not a hypernetwork"):
        load(sws / "final.learngene.safetensors")
    assert load(learngene.tensors, HypernetConfig(**{**learngene.hypernet, "max_shape": (32, 32, 4, 4)}))


def write_set(path, *lines):
    path.write_text("\n".join(lines) + "\n")
    return f"--model.set={path}"


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        (['{"depth": 2}', '{"depth": 2'], ("line 2", "not valid JSON")),
        (['{"deph": 2}'], ("line 1", "deph")),
        (['{"depth": 2, "img_size": 64}'], ("line 1", "img_size is 64", "16")),
        ([""], ("no architecture",)),
        ([json.dumps({"depth": 2, "embed_dim": 16, "num_heads": 2})], ("no architectures besides",)),
    ],
    ids=["json", "key", "images", "empty", "panel"],
)
def test_a_bad_architecture_set_is_named_with_its_line(fit, tmp_path, lines, words):
    sentence = refusal(fit("LoGAH", *TINY, write_set(tmp_path / "set.jsonl", *lines), "--name=bad"))
    for word in ("set.jsonl", *words):
        assert word in sentence


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("--model.panel=[]", ("model.panel", "at least one")),
        ("--model.width=30", ("width 30", "multiple of 4")),
        ("--model.arch=stages=2-2,embed_dim=16,num_heads=2,patch_size=4,img_size=16", ("stages",)),
        (f"--model.panel={json.dumps(PANEL[:1] * 2)}", ("without repetition",)),
        ('--model.panel=["depth=2,embed_dim=16,num_heads=2,img_size=32"]', ("other images",)),
        ("--model.max_size=100", ("model.set: depth=", "128 rows", "max_size 100")),
    ],
)
def test_wrong_options_end_with_one_sentence(fit, option, words):
    sentence = refusal(fit("LoGAH", *TINY, "--name=bad", option))
    for word in words:
        assert word in sentence


@pytest.mark.slow
def test_a_compiled_encoder_predicts_the_same():
    torch.manual_seed(0)
    hypernet = Hypernet(HypernetConfig(width=16, layers=1, heads=2, max_shape=(32, 32, 4, 4), rank=4, max_size=128))
    panel = [parse_architecture(f"{text},patch_size=4,img_size=16", num_classes=3) for text in PANEL]
    expected = [hypernet.predict(architecture) for architecture in panel]
    names = list(hypernet.state_dict())
    hypernet.compile()
    assert list(hypernet.state_dict()) == names
    for architecture, tensors in zip(panel, expected, strict=True):
        torch.testing.assert_close(hypernet.predict(architecture), tensors)


def test_the_configuration_of_bare_weights_is_read_from_a_file(tmp_path):
    config = HypernetConfig(width=16, layers=1, heads=2, max_shape=(32, 32, 4, 4), rank=4, max_size=128, num_classes=3)
    save_file(Hypernet(config).state_dict(), tmp_path / "bare.safetensors")
    arch = "depth=1,embed_dim=8,num_heads=2,patch_size=4,img_size=16"
    given = ["--source", tmp_path / "bare.safetensors", "--arch", arch, "--out", tmp_path / "d"]
    init = ["init", *given, "--method=logah"]
    assert "--config" in lgx(*init, "--num_classes=3").sentence
    (tmp_path / "config.json").write_text(json.dumps(config.to_dict()))
    nameless = [option for option in init if option != "--method=logah"]
    assert "use --method ghn3 or logah or" in lgx(*nameless, "--config", tmp_path / "config.json").sentence
    ok(lgx(*init, "--num_classes=3", "--config", tmp_path / "config.json"))
    (tmp_path / "config.json").write_text(json.dumps({**config.to_dict(), "rank": "four"}))
    assert "rank is 'four', expected a whole number" in lgx(*init, "--config", tmp_path / "config.json").sentence


def test_no_dense_weights_are_held_while_training(images, tmp_path):
    method = LoGAH(arch="depth=1,embed_dim=8,num_heads=2,patch_size=4,img_size=16", optimizer=None, panel=(PANEL[0],),
                   width=16, layers=1, heads=2, max_shape=(32, 32, 4, 4), rank=4, max_size=128)  # fmt: skip
    method.network = method.build_network()
    method.log = lambda *args, **kwargs: None
    method.set_tasks({"shapes": Task("shapes", 3)})
    for split, epoch_end in (("val", method.on_validation_epoch_end), ("test", method.on_test_epoch_end)):
        method._predict_panel(split, "shapes")
        assert method._predicted
        epoch_end()
        assert not method._predicted
