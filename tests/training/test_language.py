"""Networks of language on plain texts: trained, measured, distilled, continued and resumed from the command line."""

import json
import math
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from data_modules import TextFiles
from data_modules.text.tokenizer import load_tokenizer
from lgx.artifacts.checkpoints import load_checkpoint
from lgx.artifacts.pretrained import load_pretrained
from lgx.core.rows import read_rows
from lgx.core.task import IGNORE_TOKEN
from tests.support.command_line import Result, arguments, lgx, ok, refusal
from tests.support.extras import import_transformers
from tests.support.fake_text import SIZE, write_vocabulary
from tests.support.tokenizers_of_models import write_tokenizer

import_transformers()
ARCH = f"hf:depth=2,embed_dim=16,num_heads=2,max_len=16,vocab_size={SIZE},type=llama"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plain texts and GPT-2's vocabulary; tokens are cached beside them."""
    folder = tmp_path_factory.mktemp("language")
    (folder / "texts").mkdir()
    lines = (json.dumps({"text": f"the document {k} has {'é words ' * (k % 7)}"}) for k in range(60))
    (folder / "texts/all.jsonl").write_text("\n".join(lines))
    write_vocabulary(folder / "gpt2_vocab")
    return folder


@pytest.fixture(autouse=True)
def cache(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LGX_CACHE", str(root / "cache"))


def run(command: str, model: str, root: Path, runs: Path, *options: object, arch: str = ARCH) -> Result:
    base = [word for word in arguments(command, model, root, runs) if not word.startswith(("--data", "--model.arch"))]
    data = ["--data=TextFiles", f"--data.root={root / 'texts'}", f"--data.tokenizer={root / 'gpt2_vocab'}"]
    sizes = ["--data.max_len=16", f"--data.vocab_size={SIZE}", "--data.batch_size=8"]
    return lgx(*base, f"--model.arch={arch}", *data, *sizes, *options)


@pytest.fixture(scope="module")
def trained(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of a run from a random start."""
    runs = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LGX_CACHE", str(root / "cache"))
        done = ok(run("fit", "Ancestor", root, runs, "--test_end", "--trainer.max_epochs=2", "--early_stop=3"))
    assert "perplexity" in done.out
    return runs / "test/ancestor/seed0"


def measured(folder: Path, split: str = "test") -> dict[str, float]:
    return {row.metric: row.value for row in read_rows(folder / "results.csv") if row.split == split}


def learngene(folder: Path) -> Path:
    return folder / "final.learngene.safetensors"


def test_a_trained_network_is_measured_token_by_token(root: Path, trained: Path) -> None:
    network = load_pretrained(str(learngene(trained))).model.eval()
    module = TextFiles(
        str(root / "texts"), tokenizer=str(root / "gpt2_vocab"), max_len=16, vocab_size=SIZE, batch_size=1
    )
    module.setup("test")
    losses, right, sequences = [], [], 0
    with torch.no_grad():
        for batch in module.test_dataloader():
            for text, targets in zip(batch.inputs, batch.targets, strict=True):
                known = int((targets != IGNORE_TOKEN).sum())
                sequences += 1
                for end in range(1, known + 1):  # each token from those before it alone
                    logits = network(text[None, :, :end])[0, -1].double()
                    losses.append(float(F.cross_entropy(logits, targets[end - 1])))
                    right.append(int(logits.argmax()) == int(targets[end - 1]))
    loss, values = sum(losses) / len(losses), measured(trained)
    assert {row.n for row in read_rows(trained / "results.csv") if row.split == "test"} == {sequences}
    assert values["loss"] == pytest.approx(loss, rel=1e-4)
    assert values["perplexity"] == pytest.approx(math.exp(loss), rel=1e-3)
    assert values["acc"] == pytest.approx(sum(right) / len(right), abs=1e-6)
    assert values["bpb"] == pytest.approx(loss / math.log(2) / module.task.bytes_per_token[1], rel=1e-4)


def test_the_best_checkpoint_has_the_smallest_perplexity(trained: Path) -> None:
    own = [row.value for row in read_rows(trained / "results.csv") if (row.split, row.metric) == ("val", "perplexity")]
    state = load_checkpoint(trained / "checkpoints/last.ckpt")["callbacks"]
    (best,) = (value for key, value in state.items() if key.startswith("BestCheckpoint"))
    assert float(best["best_model_score"]) == pytest.approx(min(own))
    assert best["monitor"] == "val/perplexity"


def test_a_network_is_continued_distilled_and_tested(root: Path, trained: Path, tmp_path: Path) -> None:
    start = ["--model.initializer=Pretrained", f"--model.initializer.source={learngene(trained)}"]
    done = ok(run("fit", "Finetune", root, tmp_path, *start, "--test_start", "--model.dropout=0.1"))
    assert "random    0 parameters" in done.out
    rows = read_rows(tmp_path / "test/finetune/seed0/results.csv")
    before = {row.metric: row.value for row in rows if (row.split, row.epochs) == ("test", 0)}
    assert before == pytest.approx(measured(trained), rel=1e-4)
    again = [f"--model.{name}" for name in (f"ancestor={learngene(trained)}", "temperature=2", "start=middle")]
    small = ARCH.replace("depth=2", "depth=1")
    ok(run("fit", "Distill", root, tmp_path, *again, arch=small))
    folder = tmp_path / "test/distill/seed0"
    ok(lgx("test", "--config", folder / "config.yaml"))
    assert measured(folder)["perplexity"] < SIZE / 2
    assert learngene(folder).is_file()


def test_a_killed_run_resumes_bit_for_bit(root: Path, tmp_path: Path) -> None:
    options = ["--trainer.max_epochs=2", "--trainer.accumulate_grad_batches=3", "--model.scheduler=null"]
    ok(run("fit", "Finetune", root, tmp_path / "whole", *options))
    ok(run("fit", "Finetune", root, tmp_path / "parts", *options, "--trainer.max_steps=4"))
    ok(run("fit", "Finetune", root, tmp_path / "parts", *options, "--ckpt_path=last"))
    whole, parts = (
        load_checkpoint(tmp_path / name / "test/finetune/seed0/checkpoints/last.ckpt")["state_dict"]
        for name in ("whole", "parts")
    )
    assert all(torch.equal(parts[name], tensor) for name, tensor in whole.items())


def test_a_classifier_takes_its_tokenizer_along(text_root: Path, tmp_path: Path) -> None:
    words = write_tokenizer(tmp_path / "words", "bert")
    base = [word for word in arguments("fit", "Ancestor", text_root, tmp_path) if not word.startswith("--data")]
    arch = "--model.arch=hf:depth=2,embed_dim=16,num_heads=2,max_len=40,vocab_size=400,type=bert"
    data = ["--data=CoLA", f"--data.root={text_root}", "--data.max_len=40", "--data.vocab_size=400"]
    ok(lgx(*base, arch, *data, "--data.batch_size=4", f"--data.tokenizer={words}"))
    trained = learngene(tmp_path / "test/ancestor/seed0")
    embedded = ["--data", "cola", "--root", text_root, "--max_len", 40, "--out", tmp_path / "tasks.safetensors"]
    ok(lgx("embed", "--ancestor", trained, "--tokenizer", words, *embedded))
    for name, given in (("folder", []), ("given", ["--tokenizer", words])):
        ok(lgx("export", trained, "--out", tmp_path / name, *given))
        here, there = (load_tokenizer(folder, 400) for folder in (words, tmp_path / name))
        assert here("the cat", "a [SEP] dog") == there("the cat", "a [SEP] dog")


def test_a_run_is_planned_and_compared(root: Path, trained: Path, tmp_path: Path) -> None:
    from lgx.architectures.hf_structure import structure

    structure.cache_clear()  # networks that show the structure need values, which a plan's tensors lack
    planned = ok(run("plan", "Finetune", root, tmp_path, "--trainer.max_epochs=2"))
    assert "16 an epoch, 2 epochs" in planned.out
    compared = ok(lgx("compare", trained.parents[2], "--out", tmp_path / "page"))
    assert f"{measured(trained)['perplexity']:.4f}" in compared.out.partition("Perplexity on the test split")[2]


def test_what_does_not_fit_is_refused(root: Path, trained: Path, tmp_path: Path) -> None:
    assert "predict" in refusal(lgx("predict", "--config", trained / "config.yaml"))
