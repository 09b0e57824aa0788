"""Sources on the Hugging Face hub, against a stand-in of its HTTP interface."""

import json
from pathlib import Path

import pytest

from lgx.artifacts.learngene import Learngene
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.sources import resolve, resolve_kept
from lgx.core.rows import read_rows
from tests.support.command_line import lgx, ok, refusal
from tests.support.fake_hub import CLOSED, FakeHub, running_hub, use_hub
from tests.support.untrained_learngenes import BIG

FILE = "sws.learngene.safetensors"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running_hub() as served:
        use_hub(monkeypatch, served.url, str(tmp_path / "hub"))
        yield served


@pytest.fixture
def commit(hub: FakeHub, sws_file):
    return hub.add("lab/vit", {FILE: Path(sws_file).read_bytes(), "README.md": b"# vit", f"old/{FILE}": b""})


@pytest.fixture
def descendant(sws_file, tmp_path):
    folder = tmp_path / "vit"
    assert lgx("init", "--source", sws_file, "--arch", BIG.replace(depth=4).spec(), "--out", folder).code == 0
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def init(source, out):
    return lgx("init", "--source", source, "--arch", BIG.replace(depth=4).spec(), "--out", out)


def test_the_only_learngene_of_a_repository_is_a_source_and_its_commit_is_recorded(hub, commit, sws_file, tmp_path):
    result = ok(init("hf://lab/vit", tmp_path / "remote"))
    name = f"hf://lab/vit@{commit}/{FILE}"
    assert f"source    hf://lab/vit is {name}" in result.err
    assert f"method    sws from {name}" in result.out
    assert json.loads((tmp_path / "remote/lgx.json").read_text())["arguments"]["source"] == name
    assert init(sws_file, tmp_path / "local").code == 0
    remote, local = ((tmp_path / place / "model.safetensors").read_bytes() for place in ("remote", "local"))
    assert remote == local
    hub.requests.clear()
    assert resolve(name).name == name
    assert hub.requests == []  # a file at a commit cannot change


def test_a_file_in_a_folder_is_read_from_the_main_branch_or_a_commit(hub, ancestor_file):
    commit = hub.add("lab/vit", {"small/a.learngene.safetensors": Path(ancestor_file).read_bytes()})
    for at in ("", "@main", f"@{commit}"):
        for inside in ("small", "small/a.learngene.safetensors"):
            source = resolve(f"hf://lab/vit{at}/{inside}")
            assert source.name == f"hf://lab/vit@{commit}/small/a.learngene.safetensors"
            assert Learngene.load(source.place).method == "ancestor"


def test_a_model_folder_is_read_with_its_record_and_without_its_pickles(hub, descendant, tmp_path):
    commit = hub.add("lab/des", {**descendant, "pytorch_model.bin": b"pickle", "code.py": b"1 / 0", "a/lgx.json": b""})
    source = resolve("hf://lab/des")
    assert source.name == f"hf://lab/des@{commit}"
    assert {file.name for file in Path(source.place).iterdir()} == {"config.json", "model.safetensors", "lgx.json"}
    assert StartRecord.read(resolve(source.name).place).method == "sws"
    assert init("hf://lab/des", tmp_path / "again").code == 0
    assert (tmp_path / "again/model.safetensors").read_bytes() == descendant["model.safetensors"]


@pytest.mark.usefixtures("commit")
def test_without_a_network_the_cached_version_is_read(hub, descendant, monkeypatch, tmp_path):
    hub.add("lab/des", descendant)
    names = ["hf://lab/vit", "hf://lab/vit/" + FILE, "hf://lab/des"]
    online = [resolve(name) for name in names]
    use_hub(monkeypatch, CLOSED, str(tmp_path / "hub"))
    assert [resolve(name) for name in names] == online
    assert [resolve(name, download=False) for name in names] == online
    assert resolve_kept("hf://lab/unknown").place == "hf://lab/unknown"


def test_fit_records_the_commit_and_a_resumed_run_refuses_another_one(hub, fit, ancestor, tmp_path):
    files = {"a.learngene.safetensors": (ancestor / "final.learngene.safetensors").read_bytes()}
    name = f"hf://lab/anc@{hub.add('lab/anc', files)}/a.learngene.safetensors"
    options = ["--model.stages=[2,2]", "--name=sws", "--model.ancestor=hf://lab/anc", "--trainer.limit_val_batches=1"]
    ok(fit("SWS", *options))
    run = tmp_path / "runs/test/sws/seed0"
    assert f"ancestor: {name}" in (run / "config.yaml").read_text()
    assert Learngene.load(run / "final.learngene.safetensors").ancestor == name
    assert fit("SWS", *options, "--ckpt_path=last", "--trainer.max_epochs=2").code == 0
    hub.add("lab/anc", {**files, "README.md": b"changed"})
    assert f"model.ancestor was {name}" in refusal(fit("SWS", *options, "--ckpt_path=last", "--trainer.max_epochs=3"))


def test_a_descendant_is_trained_from_the_hub_and_named_by_its_method(hub, fit, sws, tmp_path):
    hub.add("lab/sws", {"s.learngene.safetensors": (sws / "final.learngene.safetensors").read_bytes()})
    source = "--model.initializer.source=hf://lab/sws"
    ok(fit("Finetune", "--model.initializer=StagewiseExpansion", source, "--name=des", "--test_end"))
    assert {row.method for row in read_rows(tmp_path / "runs/test/des/seed0/results.csv")} == {"sws"}
    hub.requests.clear()
    ok(lgx("compare", tmp_path / "runs", "--cost"))
    assert hub.requests == []


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("hf://lab/secret", "does not give it (Repository not found); check the name"),
        ("hf://lab/vit/x.ckpt", "only safetensors files are read from elsewhere"),
        ("hf://lab/pickle", "pickled weights are not read from elsewhere"),
        ("hf://lab/two", "holds 2 learngenes ("),
        ("hf://lab/vit/../../a.safetensors", "expected hf://ORGANIZATION/NAME"),
        ("hf://vit", "expected hf://ORGANIZATION/NAME"),
    ],
)
@pytest.mark.usefixtures("commit")
def test_each_mistake_gives_one_sentence(hub, source, sentence, tmp_path):
    hub.add("lab/pickle", {"config.json": b"{}", "pytorch_model.bin": b""})
    hub.add("lab/two", {"a.learngene.safetensors": b"", "b.learngene.safetensors": b""})
    result = refusal(init(source, tmp_path / "vit"))
    assert sentence in result
    assert source in result
    assert not (tmp_path / "vit").exists()


def test_a_url_is_refused_without_a_request_or_what_it_hides(tmp_path):
    url = "https://me:secret@host/a.safetensors"
    for words in (["init", "--arch=6-Tiny", "--source", url], ["import", "vit_tiny_patch16_224", "--weights", url]):
        result = refusal(lgx(*words, "--out", tmp_path / "vit"))
        assert "URLs are not read; download the file" in result
        assert "secret" not in result
    assert resolve_kept(url).place == url  # a record of an earlier version may name it
