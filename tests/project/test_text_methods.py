"""Methods and commands on text: ancestors, descendants, LoGAH and TAL on GPT-2s, from the command line."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from lgx.architectures import parse_for
from lgx.artifacts.learngene import Learngene
from lgx.core.rows import Row, read_rows
from lgx.hypernet.functional_forward import functional_forward
from lgx.initialization import initialize
from lgx.methods import HypernetPrediction, Pretrained
from tests.support.command_line import Result, analyze, arguments, lgx, ok, refusal
from tests.support.extras import import_transformers
from tests.support.fake_text import SIZE, write_vocabulary

transformers = import_transformers()
ARCH = f"hf:depth=2,embed_dim=24,num_heads=3,max_len=40,vocab_size={SIZE}"
PANEL = '["hf:depth=2,embed_dim=16,num_heads=2","hf:depth=4,embed_dim=24,num_heads=3"]'
HYPER = [
    "--model.set=GPTs-1K", "--model.set_size=6", f"--model.panel={PANEL}", "--model.width=16", "--model.layers=1",
    "--model.heads=2", "--model.max_shape=[64,64,4,4]", "--model.rank=4", "--model.max_size=1024",
]  # fmt: skip


def words(root: Path, runs: Path, model: str, *options: object, data: str = "CoLA", arch: str = ARCH) -> list[object]:
    """The command line of a short run."""
    base = [word for word in arguments("fit", model, root, runs) if not word.startswith(("--data", "--model."))]
    return [
        *base, f"--model.arch={arch}", "--model.optimizer=torch.optim.AdamW", "--model.optimizer.lr=0.003",
        f"--data={data}", f"--data.root={root}", "--data.batch_size=4", "--data.max_len=40",
        f"--data.vocab_size={SIZE}", *options,
    ]  # fmt: skip


def run(*args, **kwargs) -> Result:
    """One short run."""
    return lgx(*words(*args, **kwargs))


def rows_of_test(folder: Path) -> list[Row]:
    """Rows of the test split of a run."""
    return [row for row in read_rows(folder / "results.csv") if row.split == "test"]


@pytest.fixture(scope="module")
def ancestor(text_root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of a GPT-2 trained on MRPC."""
    runs = tmp_path_factory.mktemp("ancestor")
    done = run(
        text_root, runs, "Ancestor", "--model.dropout=0.1", "--test_end=true", "--trainer.max_epochs=2", data="MRPC"
    )
    assert done.code == 0, done.err
    assert "chance" not in done.out.partition("final ")[2]  # the main metric is F1, which has no known one
    return runs / "test/ancestor/seed0"


@pytest.fixture(scope="module")
def embeddings(text_root: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Embeddings of two tasks by the ancestor."""
    out = tmp_path_factory.mktemp("embeddings") / "tasks.safetensors"
    learngene = ancestor / "final.learngene.safetensors"
    done = ok(
        lgx("embed", "--ancestor", learngene, "--data", "cola,mrpc", "--root", text_root, "--out", out, "--max_len", 40)
    )
    assert "embedded  cola: 18 texts" in done.out
    return out


@pytest.fixture(scope="module")
def tal(text_root: Path, embeddings: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run folder of TAL tuned on two tasks."""
    runs = tmp_path_factory.mktemp("tal")
    ok(run(
        text_root, runs, "TAL", *HYPER, f"--model.task_embeddings={embeddings}", "--model.layout=aligned",
        "--data.tasks=[cola,mrpc]", "--data.steps_per_epoch=6", "--test_end=true", data="MultiText",
    ))  # fmt: skip
    return runs / "test/tal/seed0"


def test_tal_learns_several_text_tasks_with_a_row_per_token_and_maps_them(tal, tmp_path):
    learngene = Learngene.load(tal / "final.learngene.safetensors")
    assert learngene.hypernet["vocab_size"] == SIZE
    assert learngene.tensors["decoder.basis_tokens"].shape[0] == SIZE
    assert set(learngene.tasks) == set(learngene.task_embeddings) == {"cola", "mrpc"}
    measured = {(row.task, row.metric) for row in rows_of_test(tal)}
    of_classes = {"acc", "auroc", "balanced_acc", "ece", "loss"}
    assert measured == {("cola", m) for m in {"mcc", *of_classes}} | {("mrpc", m) for m in {"f1", *of_classes}}
    ok(analyze("tasks", "--source", tal / "final.learngene.safetensors", "--out", tmp_path / "map.svg",
               "--archs", "hf:depth=2,embed_dim=16,num_heads=2;hf:depth=3,embed_dim=16,num_heads=2"))  # fmt: skip
    assert (tmp_path / "map.svg").is_file()


@pytest.mark.parametrize("guidance", ["features", pytest.param("official", marks=pytest.mark.slow), "logits"])
def test_an_ancestor_guides_a_text_hypernetwork(text_root, ancestor, tmp_path, guidance):
    guide = f"--model.ancestor={ancestor / 'final.learngene.safetensors'}"
    ok(run(text_root, tmp_path, "TAL", *HYPER, guide, f"--model.guidance={guidance}", data="MRPC"))


def test_a_start_of_another_vocabulary_is_refused(text_root, tal, tmp_path):
    start = f"--model.start={tal / 'final.learngene.safetensors'}"
    other = ARCH.replace(f"vocab_size={SIZE}", "vocab_size=300")
    vocabulary = write_vocabulary(tmp_path / "vocabulary", size=300)
    data = [f"--data.tokenizer={vocabulary}", "--data.vocab_size=300"]
    sentence = refusal(run(text_root, tmp_path, "TAL", *HYPER, start, *data, arch=other))
    assert "was trained on texts of 260 tokens, but model.arch reads texts of 300" in sentence


@pytest.mark.slow
def test_init_writes_what_plain_transformers_reads(text_root, tal, tmp_path):
    learngene = tal / "final.learngene.safetensors"
    arch = f"hf:depth=3,embed_dim=16,num_heads=2,max_len=40,vocab_size={SIZE}"
    out, vocabulary = tmp_path / "descendant", text_root / "gpt2_vocab"
    done = lgx("init", "--source", learngene, "--task", "cola", "--arch", arch, "--out", out, "--tokenizer", vocabulary)
    assert done.code == 0, done.err
    assert "random    0 parameters: none" in done.out
    assert "blocks.0-2" in done.out
    plain = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    ids = transformers.AutoTokenizer.from_pretrained(out)("the sentence", return_tensors="pt").input_ids
    assert (int(ids[0, 0]), plain.config.id2label[1]) == (257, "acceptable")
    source, logits = HypernetPrediction(str(learngene), task="cola"), plain(ids).logits
    architecture = parse_for(arch, "text", 2)
    texts = torch.stack([ids, torch.ones_like(ids), torch.zeros_like(ids)], dim=1)
    torch.testing.assert_close(functional_forward(architecture, source(architecture), texts), logits)
    again = initialize(architecture, Pretrained(str(out)))
    torch.testing.assert_close(again.model(texts), logits)
    assert lgx("init", "--source", out, "--arch", arch, "--out", tmp_path / "again").code == 0
    assert load_file(tmp_path / "again/model.safetensors").keys() == load_file(out / "model.safetensors").keys()


@pytest.mark.parametrize(
    ("model", "options", "sentence"),
    [
        ("Finetune", ["--model.arch=hf:depth=1,vocab_size=300"], "model.arch: knows 300 tokens"),
        ("Finetune", ["--model.arch=6-Tiny"], "'6-Tiny': reads images, but the task has text; name a network of trans"),
        ("LoGAH", ["--model.set=GPTs-1K"], "model.panel: architecture '3-Tiny': reads images"),
    ],
)  # fmt: skip
def test_mistakes_end_with_one_sentence(text_root, tmp_path, model, options, sentence):
    done = run(text_root, tmp_path, model, *options)
    assert (done.code, sentence in done.sentence) == (2, True), done.err
    assert "Traceback" not in done.err
