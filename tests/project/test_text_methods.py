"""Methods and commands on text: ancestors, descendants, LoGAH and TAL on GPT-2s, from the command line."""

import csv
import json
import sys
from collections import Counter
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from sklearn.metrics import f1_score

from data_modules import CoLA, MultiTask, MultiText
from data_modules.task_sampler import TaskBatchSampler
from lgx.architectures import GPT2Architecture, ViTArchitecture, parse_for, parse_like
from lgx.artifacts.export_gpt2 import write_text_descendant
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.task_embeddings import TaskEmbeddings
from lgx.components.normalization import renormalize
from lgx.components.optim import parameter_groups
from lgx.components.teacher import Teacher
from lgx.core.batch import Task
from lgx.errors import UserError
from lgx.hypernet.functional_forward import functional_forward
from lgx.initialization import initialize
from lgx.methods import HypernetPrediction, Pretrained, VanillaLG
from tests.support.command_line import Result, lgx, python
from tests.support.fake_text import SIZE, write_sets, write_vocabulary

transformers = pytest.importorskip("transformers", reason="needs the nlp extra: pip install 'lgx[nlp]'")

ARCH = f"gpt2:depth=2,embed_dim=24,num_heads=3,max_len=40,vocab_size={SIZE}"
PANEL = '["gpt2:depth=2,embed_dim=16,num_heads=2","gpt2:depth=4,embed_dim=24,num_heads=3"]'
HYPER = [
    "--model.set=GPTs-1K", "--model.set_size=6", f"--model.panel={PANEL}", "--model.width=16", "--model.layers=1",
    "--model.heads=2", "--model.max_shape=[64,64,4,4]", "--model.rank=4", "--model.max_size=1024",
]  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Text sets with the vocabulary beside them, where data modules look for it."""
    root = write_sets(tmp_path_factory.mktemp("texts"))
    write_vocabulary(root / "gpt2_vocab")
    return root


def words(root: Path, runs: Path, model: str, *options: object, data: str = "CoLA", arch: str = ARCH) -> list[object]:
    """The command line of a short run."""
    return [
        "fit", "--model", model, f"--model.arch={arch}", "--model.optimizer=torch.optim.AdamW",
        "--model.optimizer.lr=0.003", f"--data={data}", f"--data.root={root}", "--data.batch_size=4",
        "--data.max_len=40", f"--data.vocab_size={SIZE}", f"--runs_dir={runs}", "--experiment=test",
        "--trainer.accelerator=cpu", "--trainer.devices=1", "--trainer.max_epochs=1",
        "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false", *options,
    ]  # fmt: skip


def run(*args, **kwargs) -> Result:
    """One short run."""
    return lgx(*words(*args, **kwargs))


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "results.csv").open() as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def ancestor(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of a GPT-2 trained on MRPC."""
    runs = tmp_path_factory.mktemp("ancestor")
    done = run(root, runs, "Ancestor", "--model.dropout=0.1", "--test_end=true", "--trainer.max_epochs=2", data="MRPC")
    assert done.code == 0, done.err
    return runs / "test/ancestor/seed0"


@pytest.fixture(scope="module")
def embeddings(root: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embeddings of two tasks by the ancestor."""
    out = tmp_path_factory.mktemp("embeddings") / "tasks.safetensors"
    learngene = ancestor / "best.learngene.safetensors"
    done = lgx("embed", "--ancestor", learngene, "--data", "cola,mrpc", "--root", root, "--out", out, "--max_len", 40)
    assert done.code == 0, done.err
    assert "embedded  cola: 18 texts" in done.out
    return out


@pytest.fixture(scope="module")
def tal(root: Path, embeddings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of TAL tuned on two tasks."""
    runs = tmp_path_factory.mktemp("tal")
    done = run(
        root, runs, "TAL", *HYPER, f"--model.task_embeddings={embeddings}", "--model.layout=aligned",
        "--data.tasks=[cola,mrpc]", "--data.steps_per_epoch=6", "--test_end=true", data="MultiText",
    )  # fmt: skip
    assert done.code == 0, done.err
    return runs / "test/tal/seed0"


# -- networks ----------------------------------------------------------------------------------------------------


def test_an_ancestor_is_trained_measured_and_kept(root, ancestor):
    metrics = {row["metric"]: float(row["value"]) for row in rows(ancestor) if row["split"] == "test"}
    assert set(metrics) == {"f1", "acc", "loss"}
    learngene = Learngene.load(ancestor / "best.learngene.safetensors")
    assert learngene.num_layers == learngene.architecture.depth == 2
    assert "val/f1" in learngene.metrics
    module = CoLA(root=str(root), vocab_size=SIZE)
    assert (module.task.max_len, module.task.vocab_size) == (128, SIZE)


def test_test_metrics_are_scikit_learns_on_the_same_predictions(root, ancestor, tmp_path):
    config, checkpoint = ancestor / "config.yaml", ancestor / "checkpoints/best.ckpt"
    for command in ("test", "predict"):
        done = lgx(command, "--config", config, "--ckpt_path", checkpoint, f"--runs_dir={tmp_path}")
        assert done.code == 0, done.err
    (folder,) = tmp_path.rglob("seed0")
    with (folder / "predictions.csv").open() as file:
        predicted = [int(row["class"]) for row in csv.DictReader(file)]
    targets = [k % 2 for k in range(6)]
    measured = {row["metric"]: float(row["value"]) for row in rows(folder)}
    assert measured["acc"] == pytest.approx(sum(p == t for p, t in zip(predicted, targets, strict=True)) / 6)
    assert measured["f1"] == pytest.approx(f1_score(targets, predicted, zero_division=0))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["Finetune", "TAL"])
def test_a_killed_run_goes_on_exactly(root, embeddings, tmp_path, model):
    options = ["--model.dropout=0.2", "--save_every=1", "--trainer.max_epochs=3"]
    if model == "TAL":
        options += [*HYPER, f"--model.task_embeddings={embeddings}", "--data.tasks=[cola,mrpc]"]
        options += ["--data.steps_per_epoch=4", "--model.dropout=0"]
    data = "CoLA" if model == "Finetune" else "MultiText"
    whole, parts = (words(root, tmp_path / name, model, *options, data=data) for name in ("whole", "parts"))
    kill = ["--trainer.callbacks+=tests.support.probes.KillAt", "--trainer.callbacks.step=6"]
    killed = python("-m", "lgx", *parts, *kill, "--trainer.callbacks.moment=after_update", LGX_ALLOW_IMPORTS="tests")
    assert killed.returncode == -9, killed.stderr
    for line in (whole, [*parts, "--ckpt_path=last"]):
        done = lgx(*line)
        assert done.code == 0, done.err
    whole, resumed = (
        torch.load(tmp_path / name / f"test/{model.lower()}/seed0/checkpoints/last.ckpt", weights_only=True)[
            "state_dict"
        ]
        for name in ("whole", "parts")
    )
    assert whole.keys() == resumed.keys()
    assert all(torch.equal(whole[name], resumed[name]) for name in whole)


def test_descendants_start_from_an_ancestor_and_are_distilled(root, ancestor, tmp_path):
    learngene = ancestor / "best.learngene.safetensors"
    start = [
        "--model.initializer=Pretrained", f"--model.initializer.source={learngene}", "--test_start=true",
        "--data.max_len=30",
    ]  # fmt: skip
    shorter = ARCH.replace("max_len=40", "max_len=30")
    done = run(root, tmp_path, "Finetune", *start, arch=shorter)
    assert done.code == 0, done.err
    assert "taken" in done.out
    assert "random    0 parameters" in done.out
    done = run(root, tmp_path, "Distill", f"--model.ancestor={learngene}", data="MRPC", arch=ARCH)
    assert done.code == 0, done.err
    assert Learngene.load(tmp_path / "test/distill/seed0/best.learngene.safetensors").method == "simple_lg"


def test_embeddings_never_decay():
    decayed, kept = parameter_groups(GPT2Architecture(1, 8, 2, max_len=5, vocab_size=7).build("meta"))
    if "weight_decay" in decayed:
        decayed, kept = kept, decayed
    shapes = {tuple(p.shape) for p in kept["params"]}
    assert {(7, 8), (5, 8)} <= shapes
    assert not {(7, 8), (5, 8)} & {tuple(p.shape) for p in decayed["params"]}


# -- sources -----------------------------------------------------------------------------------------------------


def language_model(folder: Path, **changes) -> "transformers.GPT2LMHeadModel":
    torch.manual_seed(0)
    config = GPT2Architecture(2, 24, 3, max_len=40, vocab_size=SIZE).build("meta").config
    config.update(changes)
    model = transformers.GPT2LMHeadModel(config).eval()
    model.save_pretrained(folder)
    return model


@pytest.mark.parametrize("prefix", ["", "gpt2:"])
def test_a_pretrained_language_model_is_a_source_without_a_head(tmp_path, capfd, prefix):
    model = language_model(tmp_path / "lm")
    capfd.readouterr()
    source = load_pretrained(f"{prefix}{tmp_path / 'lm'}")
    assert capfd.readouterr() == ("", "")
    assert source.architecture == GPT2Architecture(2, 24, 3, max_len=40, vocab_size=SIZE)
    ids = torch.randint(0, SIZE - 1, (2, 7))
    expected = model.transformer(ids).last_hidden_state
    torch.testing.assert_close(source.model.tokens(ids), expected)
    start = initialize(source.architecture.replace(max_len=9), Pretrained(str(tmp_path / "lm")))
    assert start.random == ("score.weight",)
    torch.testing.assert_close(start.model.tokens(ids), expected)


def test_features_are_the_mean_over_a_texts_own_tokens(tmp_path):
    model = language_model(tmp_path / "lm")
    task = Task("cola", 2, "text", max_len=40, vocab_size=SIZE)
    frozen = Teacher.load(str(tmp_path / "lm"), task, features_only=True)
    ids = torch.randint(0, SIZE - 1, (2, 7))
    ids[1, 4:] = SIZE - 1
    features = frozen.features(ids)
    assert features.shape == (2, frozen.width) == (2, 24)
    torch.testing.assert_close(features[0], model.transformer(ids[:1]).last_hidden_state[0].mean(0))
    torch.testing.assert_close(features[1], model.transformer(ids[1:, :4]).last_hidden_state[0].mean(0))
    assert renormalize(ids, task, (0.1,), (0.2,)) is ids


def test_teachers_that_do_not_fit_are_refused(tmp_path):
    language_model(tmp_path / "lm")
    lm, task = str(tmp_path / "lm"), Task("cola", 2, "text", max_len=40, vocab_size=SIZE)
    with pytest.raises(UserError, match="no head that was trained to classify"):
        Teacher.load(lm, task)
    for change in ({"vocab_size": 300}, {"max_len": 41}):
        with pytest.raises(UserError, match=f"knows {SIZE} tokens, in texts of up to 40, but task cola"):
            Teacher.load(lm, Task(**{**vars(task), **change}), features_only=True)
    with pytest.raises(UserError, match="is for text, but task digits is classification"):
        Teacher.load(lm, Task("digits", 10), features_only=True)
    small = ViTArchitecture(1, 8, 2, patch_size=8, img_size=16, num_classes=2)
    Learngene("ancestor", small, small.build().state_dict()).save(tmp_path / "vit.learngene.safetensors")
    with pytest.raises(UserError, match="is for classification, but task cola is text"):
        Teacher.load(str(tmp_path / "vit.learngene.safetensors"), task, features_only=True)


def test_gpt2s_of_another_make_are_refused(tmp_path):
    language_model(tmp_path / "lm", activation_function="relu")
    with pytest.raises(UserError, match="its activation_function is relu, only GPT-2's own gelu_new"):
        load_pretrained(str(tmp_path / "lm"))
    with pytest.raises(UserError, match="/nowhere: transformers could not load it"):
        load_pretrained("gpt2:/nowhere")
    (tmp_path / "lm/model.safetensors").write_bytes(b"broken")
    with pytest.raises(UserError, match="not an intact safetensors file"):
        load_pretrained(str(tmp_path / "lm"))


# -- hypernetworks -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("model", ["LoGAH", "GHN3"])
def test_hypernetworks_train_on_one_text_set(root, tmp_path, model):
    options = HYPER if model == "LoGAH" else [*HYPER[:-3], "--model.max_shape=[16,16,4,4]"]
    done = run(root, tmp_path, model, *options, "--test_end=true")
    assert done.code == 0, done.err
    folder = tmp_path / "test" / model.lower() / "seed0"
    tested = [row for row in rows(folder) if row["split"] == "test" and row["metric"] == "mcc"]
    assert [(row["task"], row["epochs"], row["n"]) for row in tested] == [("cola", "0", "6")] * 2
    assert len({row["architecture"] for row in tested}) == 2
    assert Learngene.load(folder / "best.learngene.safetensors").hypernet["vocab_size"] is None


def test_tal_learns_several_text_tasks_with_rows_of_their_own_for_tokens(tal):
    learngene = Learngene.load(tal / "best.learngene.safetensors")
    assert learngene.hypernet["vocab_size"] == SIZE
    assert learngene.tensors["decoder.basis_tokens"].shape[0] == SIZE
    assert set(learngene.tasks) == set(learngene.task_embeddings) == {"cola", "mrpc"}
    measured = {(row["task"], row["metric"]) for row in rows(tal) if row["split"] == "test"}
    assert measured == {("cola", m) for m in ("mcc", "acc", "loss")} | {("mrpc", m) for m in ("f1", "acc", "loss")}


@pytest.mark.parametrize("guidance", ["features", "official", "logits"])
def test_an_ancestor_guides_a_text_hypernetwork(root, ancestor, tmp_path, guidance):
    guide = f"--model.ancestor={ancestor / 'best.learngene.safetensors'}"
    done = run(root, tmp_path, "TAL", *HYPER, guide, f"--model.guidance={guidance}", data="MRPC")
    assert done.code == 0, done.err


def test_a_start_of_another_vocabulary_is_refused(root, tal, tmp_path):
    start = f"--model.start={tal / 'best.learngene.safetensors'}"
    other = ARCH.replace(f"vocab_size={SIZE}", "vocab_size=300")
    done = run(root, tmp_path, "TAL", *HYPER, start, arch=other)
    assert (done.code, "was trained on texts of 260 tokens, but model.arch reads texts of 300" in done.sentence) == (
        2,
        True,
    )


def test_a_task_embedding_is_the_mean_over_the_training_texts(root, ancestor, embeddings):
    stored = TaskEmbeddings.load(embeddings)
    assert stored.images == {"cola": 18, "mrpc": 18}
    module = CoLA(root=str(root), vocab_size=SIZE, max_len=40)
    module.setup("fit")
    frozen = Teacher.load(str(ancestor / "best.learngene.safetensors"), module.task, features_only=True)
    texts = module.examples("train")
    each = torch.cat([frozen.features(texts[i][0][None]) for i in range(len(texts))])
    torch.testing.assert_close(stored.tensors["cola"], each.mean(0), rtol=1e-4, atol=1e-5)


def test_init_writes_what_plain_transformers_reads(root, tal, tmp_path):
    learngene = tal / "best.learngene.safetensors"
    arch = f"gpt2:depth=3,embed_dim=16,num_heads=2,max_len=40,vocab_size={SIZE}"
    out, vocabulary = tmp_path / "descendant", root / "gpt2_vocab"
    done = lgx("init", "--source", learngene, "--task", "cola", "--arch", arch, "--out", out, "--tokenizer", vocabulary)
    assert done.code == 0, done.err
    assert "random    0 parameters: none" in done.out
    assert "blocks.0-2" in done.out
    code = (
        "import sys, torch; from transformers import AutoModelForSequenceClassification, AutoTokenizer;"
        f"model = AutoModelForSequenceClassification.from_pretrained({str(out)!r});"
        f"ids = AutoTokenizer.from_pretrained({str(out)!r})('the sentence', return_tensors='pt').input_ids;"
        "assert ids[0, 0] == 257 and model.config.id2label[1] == 'acceptable';"
        f"torch.save([ids, model(input_ids=ids).logits], {str(tmp_path / 'out.pt')!r}); assert 'lgx' not in sys.modules"
    )
    plain = python("-c", code, cwd=tmp_path)
    assert plain.returncode == 0, plain.stderr
    ids, logits = torch.load(tmp_path / "out.pt", weights_only=True)
    source = HypernetPrediction(str(learngene), task="cola")
    architecture = parse_for(arch, "text", 2)
    torch.testing.assert_close(functional_forward(architecture, source(architecture), ids), logits)
    file = tmp_path / "weights.safetensors"
    done = lgx("init", "--source", learngene, "--task", "cola", "--arch", arch, "--out", file)
    assert done.code == 0, done.err
    again = initialize(architecture, Pretrained(str(file)))
    torch.testing.assert_close(again.model(ids), logits)
    assert lgx("init", "--source", out, "--arch", arch, "--out", tmp_path / "again").code == 0
    assert load_file(tmp_path / "again/model.safetensors").keys() == load_file(file).keys()


def test_a_trained_run_is_exported(ancestor, tmp_path):
    done = lgx("export", ancestor / "checkpoints/best.ckpt", "--out", tmp_path / "exported")
    assert done.code == 0, done.err
    plain = transformers.GPT2ForSequenceClassification.from_pretrained(tmp_path / "exported").eval()
    ids = torch.randint(0, SIZE - 1, (2, 6))
    own = load_pretrained(str(ancestor / "checkpoints/best.ckpt")).model
    torch.testing.assert_close(plain(input_ids=ids).logits, own(ids))


def test_tasks_are_mapped_with_text_models(tal, tmp_path):
    done = lgx("analyze", "tasks", "--learngene", tal / "best.learngene.safetensors", "--out", tmp_path / "map.svg",
               "--archs", "gpt2:depth=2,embed_dim=16,num_heads=2;gpt2:depth=3,embed_dim=16,num_heads=2")  # fmt: skip
    assert done.code == 0, done.err
    assert (tmp_path / "map.svg").is_file()
    assert (tal / "task_map.svg").is_file()


def test_random_starts_and_sets_of_text_models(tmp_path):
    arch = f"gpt2:depth=1,embed_dim=8,num_heads=2,max_len=9,vocab_size={SIZE}"
    done = lgx("init", "--arch", arch, "--out", tmp_path / "random")
    assert (done.code, "2 classes" in done.out) == (0, True), done.err
    done = lgx("sample", "GPTs-1K", "--count", 2, "--arch", arch)
    assert {json.loads(line)["vocab_size"] for line in done.out.splitlines()} == {SIZE}


# -- several sets ------------------------------------------------------------------------------------------------


def several(root: Path, **options) -> MultiText:
    made = MultiText(**{
        "tasks": ("cola", "mrpc", "imdb"), "root": str(root), "vocab_size": SIZE, "max_len": 40, "batch_size": 4,
        "seed": 3, **options,
    })  # fmt: skip
    made.setup("fit")
    return made


def test_every_batch_is_of_one_text_task_drawn_by_temperature(root):
    made = several(root, limit_train=16, steps_per_epoch=60)
    task = made.task
    assert (task.kind, task.metric, task.max_len, task.vocab_size) == ("text", "score", 40, SIZE)
    assert list(made.sampling_weights.values()) == pytest.approx([1 / 3] * 3)
    flat = several(root, temperature=float("inf"), steps_per_epoch=60)
    seen = Counter(batch.task for batch in flat.train_dataloader())
    assert min(seen.values()) > 10
    assert set(seen) == {"cola", "mrpc", "imdb"}
    for batch in made.train_dataloader():
        assert batch.inputs.shape[0] == len(batch.targets) == 4
        assert (batch.inputs != SIZE - 1).any(0).all()  # no column of padding alone


def test_a_pass_over_a_text_task_sees_every_text_once_in_batches_of_like_length(root):
    made = several(root, tasks=("sst2",), batch_size=3, steps_per_epoch=12)
    texts = made.sets["sst2"].examples("train")
    batches = list(made.train_dataloader())
    for part in (batches[:6], batches[6:]):
        seen = sorted(tuple(row[row != SIZE - 1].tolist()) for batch in part for row in batch.inputs)
        assert seen == sorted(tuple(texts[i][0].tolist()) for i in range(18))
    padded = sum(batch.inputs.numel() for batch in batches)
    assert 2 * texts.lengths.sum() / padded > 0.85


def test_the_global_batch_of_texts_does_not_depend_on_the_number_of_processes():
    lengths = {"a": np.random.default_rng(0).integers(3, 60, 37), "b": np.random.default_rng(1).integers(3, 60, 11)}
    sizes = {name: len(found) for name, found in lengths.items()}

    def batches(batch: int, rank: int, world: int) -> list[list[tuple[int, int]]]:
        weights = np.array([0.5, 0.5])
        return list(TaskBatchSampler(sizes, weights, 25, batch, 3, rank, world, lengths=lengths, pool=3))

    halves = zip(batches(4, 0, 2), batches(4, 1, 2), strict=True)
    assert [left + right for left, right in halves] == batches(8, 0, 1)


@pytest.mark.parametrize("workers", [0, 1])
def test_several_text_sets_go_on_exactly(root, workers):
    expected = list(several(root, steps_per_epoch=6).train_dataloader())
    stopped = several(root, steps_per_epoch=6, num_workers=workers).train_dataloader()
    taken = list(islice(stopped, 2))
    resumed = several(root, steps_per_epoch=6).train_dataloader()
    resumed.load_state_dict(stopped.state_dict())
    found = [*taken, *resumed]
    assert [batch.task for batch in found] == [batch.task for batch in expected]
    assert all(torch.equal(a.inputs, b.inputs) for a, b in zip(found, expected, strict=True))


def test_images_and_texts_never_mix(root):
    with pytest.raises(UserError, match="cola is a text set, an image set is needed here"):
        MultiTask(tasks=("pocket_digits", "cola"))
    with pytest.raises(UserError, match="pocket_digits is an image set, a text set is needed here: cola"):
        MultiText(tasks=("cola", "pocket_digits"))
    with pytest.raises(UserError, match="no data set is called colla; did you mean cola"):
        MultiText(tasks=("colla",))
    with pytest.raises(UserError, match=r"predict one task at a time.*instead of MultiText"):
        several(root).predict_dataloader()


# -- what a user reads when something is wrong -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("Finetune", ["--data.max_len=50"], "in texts of up to 40, but task cola has 260, in texts of up to 50"),
        ("Finetune", ["--model.arch=gpt2:depth=1,vocab_size=300"], "model.arch: knows 300 tokens"),
        ("Finetune", ["--data.vocab_size=300"], "encoder.json has 260 tokens, but vocab_size is 300"),
        ("Finetune", ["--model.arch=6-Tiny"], "'6-Tiny': reads images, but the task has text; name a GPT-2, e.g."),
        ("SWS", [], "model SWS: is for image models, but gpt2:depth=2"),
        ("TLEG", [], "model TLEG: is for image models"),
        ("MiniDeiT", [], "model MiniDeiT: is for image models"),
        ("LSAMD", ["--model.ancestor=x"], "model LSAMD: is for image models"),
        ("Finetune", ["--model.drop_path_rate=0.1"], "model.drop_path_rate: is for image models"),
        ("Finetune", ["--model.dropout=1"], "model.dropout: a share in [0, 1)"),
        ("Finetune", ["--model.mixup=0.2"], "leave both at 0 for text"),
        ("LoGAH", [], "ViTs-1K holds other networks"),
        ("LoGAH", ["--model.set=GPTs-1K"], "model.panel: architecture '3-Tiny': reads images"),
        ("LoGAH", [*HYPER, "--model.dropout=0.1"], "neither stochastic depth nor dropout"),
    ],
)  # fmt: skip
def test_mistakes_are_one_sentence(root, tmp_path, model, options, sentence):
    if model == "LoGAH" and not options:
        options = [f"--model.panel={PANEL}"]
    done = run(root, tmp_path, model, *options)
    assert (done.code, sentence in done.sentence) == (2, True), done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("file", "content", "sentence"),
    [
        ("cola/raw/in_domain_train.tsv", "gj04\t1\t\tgood\ngj04\t1\tbad\n", "train.tsv, line 2: 3 columns"),
        ("cola/raw/in_domain_train.tsv", "gj04\t1\t\tgood\ngj04\t1\t\t \n", "train.tsv, line 2: an empty sentence"),
        ("gpt2_vocab/vocab.bpe", "#version: 0.2\nq u\n", "vocab.bpe, line 2: the vocabulary beside it has no"),
    ],
)  # fmt: skip
def test_malformed_files_are_named_by_the_command_line(tmp_path, file, content, sentence):
    root = write_sets(tmp_path / "data")
    write_vocabulary(root / "gpt2_vocab")
    (root / file).write_text(content)
    done = run(root, tmp_path, "Finetune")
    assert (done.code, sentence in done.sentence) == (2, True), done.err


def test_over_long_texts_and_missing_label_columns_are_named_by_the_command_line(root, tmp_path):
    done = run(root, tmp_path, "Finetune", "--data.too_long=refuse", "--data.max_len=12")
    assert (done.code, "tokens, more than data.max_len 12" in done.sentence) == (2, True), done.err
    other = write_sets(tmp_path / "data")
    (other / "sst2/train.tsv").write_text("sentence\tscore\na\t1\n")
    done = run(other, tmp_path, "Finetune", f"--data.tokenizer={root}/gpt2_vocab", data="SST2")
    assert (done.code, "train.tsv, line 1: no column 'label'" in done.sentence) == (2, True), done.err


def test_without_the_extra_the_command_line_says_what_to_install(root, tmp_path, monkeypatch):
    for name in [n for n in sys.modules if n == "lgx.architectures.gpt2_model"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "transformers", None)
    done = run(root, tmp_path, "Finetune")
    assert (done.code, "pip install 'lgx[nlp]'" in done.sentence) == (2, True), done.err


def test_commands_refuse_what_does_not_belong_together(root, tal, ancestor, tmp_path):
    learngene, whole = tal / "best.learngene.safetensors", ancestor / "best.learngene.safetensors"
    out = tmp_path / "out"
    cases = {
        ("init", "--source", learngene, "--task", "cola", "--arch", "6-Tiny", "--out", out): "name a GPT-2",
        ("init", "--source", learngene, "--task", "cola", "--arch", "3-GPT2", "--out", out): "vocab_size=260",
        ("init", "--source", whole, "--method", "vanilla_lg", "--arch", ARCH, "--out", out): "vanilla_lg: is for im",
        ("init", "--arch", "6-Tiny", "--out", out, "--tokenizer", root): "is for text models",
        ("init", "--arch", ARCH, "--out", f"{out}.safetensors", "--tokenizer", root): "is written into a folder",
        ("init", "--arch", ARCH, "--out", out, "--tokenizer", root): "--tokenizer: ",
        ("embed", "--ancestor", whole, "--data", "cola", "--img_size", 32): "reads texts; leave it out",
        ("embed", "--ancestor", whole, "--data", "cifar10", "--root", root): "cifar10 is an image set",
        ("sample", "ViTs-1K", "--arch", "6-GPT2"): "ViTs-1K holds other networks",
        ("data", "prepare", "cola", "--root", tmp_path): "unpack cola_public",
        ("data", "prepare", "cola", "--root", root, "--shards"): "texts need no shards",
        ("data", "prepare", "cola", "--root", tmp_path, "--source", "/nowhere"): "/nowhere is not a folder",
    }  # fmt: skip
    for words, sentence in cases.items():
        done = lgx(*words)
        assert (done.code, sentence in done.sentence) == (2, True), (words, done.err)
    assert not out.exists()


def test_sources_of_the_other_kind_start_nothing(tmp_path):
    text, image = (
        GPT2Architecture(1, 8, 2, max_len=5, vocab_size=7),
        ViTArchitecture(1, 8, 2, patch_size=8, img_size=16),
    )
    write_text_descendant(tmp_path / "text", text.build())
    with pytest.raises(UserError, match="its source is for text"):
        initialize(image, Pretrained(str(tmp_path / "text")))
    with pytest.raises(UserError, match="vanilla_lg: is for image models"):
        initialize(text, VanillaLG(str(tmp_path / "text"), 1))
    Learngene("ancestor", image, image.build().state_dict()).save(tmp_path / "vit.learngene.safetensors")
    with pytest.raises(UserError, match="its source is for classification"):
        initialize(text, Pretrained(str(tmp_path / "vit.learngene.safetensors")))


def test_like_architectures_take_the_bases_inputs():
    base = GPT2Architecture(2, 24, 3, max_len=12, vocab_size=101, num_classes=3)
    assert parse_like("3-GPT2", base) == GPT2Architecture(3, max_len=12, vocab_size=101, num_classes=3)
    assert parse_like("3-GPT2,max_len=9", base).max_len == 9
    with pytest.raises(UserError, match="reads text, but the task has images"):
        parse_like("3-GPT2", ViTArchitecture())


# -- data commands -----------------------------------------------------------------------------------------------


def test_text_sets_are_listed_and_linked(root, tmp_path):
    done = lgx("data", "prepare", "rte", "--root", tmp_path / "data", "--source", root / "rte")
    assert (done.code, "20 train, 5 test texts" in done.out) == (0, True), done.err
    assert (tmp_path / "data/rte").is_symlink()
    listed = {row["name"]: row for row in json.loads(lgx("data", "list", "--root", tmp_path / "data", "--json").out)}
    assert [listed[name]["present"] for name in ("rte", "cola")] == [True, False]
    (tmp_path / "broken").mkdir()
    done = lgx("data", "prepare", "cola", "--root", tmp_path / "data", "--source", tmp_path / "broken")
    assert done.code == 2
    assert not (tmp_path / "data/cola").exists()


def test_image_work_loads_no_text_model():
    code = (
        "import lgx.training.cli, sys; assert not [n for n in sys.modules if n.startswith('transformers.models.gpt2')]"
    )
    done = python("-c", code)
    assert done.returncode == 0, done.stderr
