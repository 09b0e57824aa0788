"""The model card of ``lgx export`` says that the network was trained, on what, how well, and by which run."""

import re
import shutil
from pathlib import Path

import pytest

from lgx.artifacts.checkpoints import weights_of_run
from lgx.core.provenance import commit
from lgx.core.rows import read_rows
from tests.support.command_line import ARCH, arguments, lgx, ok
from tests.support.fake_hub import running_hub, use_hub


@pytest.fixture(scope="module")
def run(images, ancestor_file, tmp_path_factory):
    """A run of two epochs with a test of its best checkpoint."""
    runs = tmp_path_factory.mktemp("runs")
    start = runs / "start"
    words = ["--source", ancestor_file, "--method=weight_selection", "--arch", ARCH, "--head=3"]
    assert lgx("init", *words, "--out", start).code == 0
    words = ["--model.initializer=Pretrained", f"--model.initializer.source={start}", "--seed_everything=3"]
    ok(lgx(*arguments("fit", "Finetune", images, runs, *words, "--name=r", "--trainer.max_epochs=2")))
    folder = runs / "test/r/seed3"
    assert lgx("test", f"--config={folder / 'config.yaml'}", "--ckpt_path=best").code == 0
    return folder


def card_of(source, out) -> tuple[str, dict[str, str]]:
    """Summary and facts of the card of an exported model."""
    ok(lgx("export", source, "--out", out))
    card = (out / "README.md").read_text()
    return card.split(f"# {out.name}\n\n")[1].split("\n")[0], dict(
        re.findall(r"^\| (.*?) \| (.*) \|$", card, re.MULTILINE)
    )


def test_the_card_of_a_checkpoint_names_task_score_seed_commit_method_start_and_size(run, tmp_path):
    summary, facts = card_of(run, tmp_path / "model")
    assert summary.startswith("A vision transformer trained by lgx ")
    (row,) = [row for row in read_rows(run / "results.csv") if row.split == "test" and row.metric == "acc"]
    assert float(facts["acc (%), test split"]) == pytest.approx(100 * row.value, abs=1e-3)
    assert "acc (%), val split" in facts
    expected = {
        "task": '"shapes"',
        "seed": "3",
        "method": f'"{row.method}"',
        "run": f'"{row.run}"',
        "source": f'"{weights_of_run(str(run))}"',
    }
    assert expected.items() <= facts.items()
    assert facts["commit"] == f'"{commit()}"'
    assert facts["start"].startswith('"WeightSelection from ')
    assert facts["start"].endswith('/ancestor.learngene.safetensors"')
    assert facts["trained"] == f'"{row.epochs} epoch{"s" if row.epochs > 1 else ""}"'
    size = (tmp_path / "model/model.safetensors").stat().st_size / 1e6
    assert float(facts["size"].split()[0]) == pytest.approx(size, rel=0.2)


def test_a_checkpoint_without_its_run_still_names_its_task(run, tmp_path):
    alone = shutil.copy(run / "checkpoints/best.ckpt", tmp_path / "alone.ckpt")
    summary, facts = card_of(alone, tmp_path / "model")
    assert "trained by lgx" in summary
    assert facts["task"] == '"shapes"'
    assert "seed" not in facts


def test_the_card_of_a_start_says_initialized(tmp_path):
    assert lgx("init", "--arch", ARCH, "--num_classes=3", "--out", tmp_path / "start").code == 0
    summary, facts = card_of(tmp_path / "start", tmp_path / "model")
    assert "initialized by lgx" in summary
    assert facts["method"] == '"random"'
    assert "trained" not in facts


def test_the_card_of_a_network_of_unknown_origin_says_written(ancestor_file, tmp_path):
    card_of(ancestor_file, tmp_path / "trained")
    summary, facts = card_of(tmp_path / "trained", tmp_path / "again")
    assert "written by lgx" in summary
    assert not {"trained", "method"} & set(facts)


def test_the_card_of_a_learngene_is_that_of_the_file_also_from_elsewhere(ancestor_file, monkeypatch, tmp_path):
    with running_hub() as hub:
        use_hub(monkeypatch, hub.url, str(tmp_path / "hub"))
        commit = hub.add("lab/a", {"a.learngene.safetensors": Path(ancestor_file).read_bytes()})
        summary, facts = card_of("hf://lab/a", tmp_path / "model")
    assert "trained by lgx" in summary
    assert (facts["task"], facts["method"]) == ('"shapes"', '"ancestor"')
    assert facts["source"] == f'"hf://lab/a@{commit}/a.learngene.safetensors"'
