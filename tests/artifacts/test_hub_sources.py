"""Sources on the Hugging Face hub, against a stand-in of its HTTP interface."""

import json
from pathlib import Path

import pytest
from huggingface_hub.errors import LocalEntryNotFoundError

from lgx.artifacts import sources
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.safetensors_files import StartRecord
from lgx.artifacts.sources import resolve, resolve_kept
from lgx.core.rows import read_rows
from lgx.errors import UserError
from lgx.results.lineage import Lineage
from lgx.results.run_records import RunRecord
from tests.support.command_line import free_port, lgx, ok, refusal
from tests.support.fake_hub import TOKEN, FakeHub, running_hub, use_hub
from tests.support.untrained_learngenes import BIG

FILE = "sws.learngene.safetensors"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running_hub() as served:
        use_hub(monkeypatch, served.url, str(tmp_path / "hub"))
        yield served


@pytest.fixture
def commit(hub: FakeHub, sws_file):
    return hub.add("lab/vit", {FILE: Path(sws_file).read_bytes(), "README.md": b"# vit"})


@pytest.fixture
def descendant(sws_file, tmp_path):
    folder = tmp_path / "vit"
    assert lgx("init", "--source", sws_file, "--arch", BIG.replace(depth=4).spec(), "--out", folder).code == 0
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def init(source, out, *options):
    return lgx("init", "--source", source, "--arch", BIG.replace(depth=4).spec(), "--out", out, *options)


def test_the_only_learngene_of_a_repository_is_a_source_and_its_commit_is_recorded(commit, sws_file, tmp_path):
    result = ok(init("hf://lab/vit", tmp_path / "remote"))
    name = f"hf://lab/vit@{commit}/{FILE}"
    assert f"source    hf://lab/vit is {name}" in result.err
    assert f"method    sws from {name}" in result.out
    assert json.loads((tmp_path / "remote/lgx.json").read_text())["arguments"]["source"] == name
    assert init(sws_file, tmp_path / "local").code == 0
    remote, local = ((tmp_path / place / "model.safetensors").read_bytes() for place in ("remote", "local"))
    assert remote == local


def test_a_pinned_file_is_downloaded_once_and_then_read_without_a_request(hub, commit, sws_file, tmp_path):
    name = f"hf://lab/vit@{commit}/{FILE}"
    assert resolve(name) == resolve(name)
    assert len([request for request in hub.requests if request.startswith("GET /lab/vit/resolve/")]) == 1
    hub.requests.clear()
    assert init(name, tmp_path / "vit").code == 0
    assert hub.requests == []


def test_an_earlier_commit_a_branch_and_a_file_in_a_folder_are_read(hub, commit, sws_file, ancestor_file):
    other = Path(ancestor_file).read_bytes()
    hub.repositories["lab/vit"].commit({FILE: other})
    hub.repositories["lab/vit"].commit({"small/a.learngene.safetensors": other}, "next")
    assert Learngene.load(resolve("hf://lab/vit").place).method == "ancestor"
    assert Learngene.load(resolve(f"hf://lab/vit@{commit}").place).method == "sws"
    assert resolve("hf://lab/vit@next/small").name.endswith("/small/a.learngene.safetensors")
    odd = "snapshots/a.learngene.safetensors"  # also the name of a folder in the client's cache
    hub.repositories["lab/vit"].commit({odd: other}, "next")
    assert load_pretrained(resolve(f"hf://lab/vit@next/{odd}").place).name.endswith(f"/{odd}")


def test_a_model_folder_is_read_with_its_record_and_without_its_pickles(hub, descendant, tmp_path):
    commit = hub.add("lab/des", {**descendant, "pytorch_model.bin": b"pickle", "code.py": b"1 / 0"})
    folder = Path(resolve("hf://lab/des").place)
    assert {file.name for file in folder.iterdir()} == {"config.json", "model.safetensors", "lgx.json"}
    record = StartRecord.read(resolve(f"hf://lab/des@{commit}").place)
    assert record.method == "sws"
    assert init("hf://lab/des", tmp_path / "again").code == 0
    assert (tmp_path / "again/model.safetensors").read_bytes() == (folder / "model.safetensors").read_bytes()


def test_without_a_network_the_cached_version_is_read(hub, commit, descendant, monkeypatch, tmp_path, capsys):
    hub.add("lab/des", descendant)
    names = ["hf://lab/vit", "hf://lab/vit/" + FILE, "hf://lab/des"]
    online = [resolve(name) for name in names]
    use_hub(monkeypatch, f"http://127.0.0.1:{free_port()}", str(tmp_path / "hub"))
    capsys.readouterr()
    assert [resolve(name) for name in names] == online
    assert capsys.readouterr().err.count("; the cached copy is read\n") == 3
    assert [resolve(name, download=False) for name in names] == online
    assert capsys.readouterr().err == ""
    assert resolve_kept("hf://lab/unknown").place == "hf://lab/unknown"


@pytest.mark.parametrize("status", [503, 429, 0])
def test_the_cached_version_is_read_where_the_hub_fails(hub, commit, status, capsys):
    kept = resolve("hf://lab/vit")
    hub.add("lab/new", {FILE: b""})
    hub.fails = status
    assert resolve("hf://lab/vit") == kept
    assert capsys.readouterr().err.count("hf://lab/vit: the Hugging Face hub does not give it (") == 1
    with pytest.raises(UserError, match=r"hf://lab/new: the Hugging Face hub does not give it \(.*\); check the name"):
        resolve("hf://lab/new")


def test_a_file_that_the_hub_sends_no_more_is_read_from_the_cache(hub, commit, monkeypatch, capsys):
    kept = resolve("hf://lab/vit")

    def stalls(*_, **__):
        raise LocalEntryNotFoundError("no connection")

    monkeypatch.setattr(sources, "hf_hub_download", stalls)
    assert resolve("hf://lab/vit") == kept
    assert "does not give it (no connection); the cached copy is read" in capsys.readouterr().err


def test_fit_records_the_commit_and_a_resumed_run_refuses_another_one(hub, fit, images, ancestor, tmp_path):
    hub.add("lab/anc", {"a.learngene.safetensors": (ancestor / "final.learngene.safetensors").read_bytes()})
    options = ["--model.stages=[2,2]", "--name=sws", "--model.ancestor=hf://lab/anc", "--trainer.limit_val_batches=1"]
    ok(fit("SWS", *options))
    run = tmp_path / "runs/test/sws/seed0"
    first = hub.repositories["lab/anc"].branches["main"]
    name = f"hf://lab/anc@{first}/a.learngene.safetensors"
    assert f"ancestor: {name}" in (run / "config.yaml").read_text()
    assert Learngene.load(run / "final.learngene.safetensors").ancestor == name
    assert fit("SWS", *options, "--ckpt_path=last", "--trainer.max_epochs=2").code == 0
    hub.repositories["lab/anc"].commit({"README.md": b"changed"})
    assert f"model.ancestor was {name}" in refusal(fit("SWS", *options, "--ckpt_path=last", "--trainer.max_epochs=3"))


def test_a_descendant_is_trained_from_the_hub_and_named_by_its_method(hub, fit, sws, tmp_path):
    hub.add("lab/sws", {"s.learngene.safetensors": (sws / "final.learngene.safetensors").read_bytes()})
    source = "--model.initializer.source=hf://lab/sws"
    ok(fit("Finetune", "--model.initializer=StagewiseExpansion", source, "--name=des", "--test_end"))
    assert {row.method for row in read_rows(tmp_path / "runs/test/des/seed0/results.csv")} == {"sws"}
    hub.requests.clear()
    ok(lgx("compare", tmp_path / "runs", "--cost"))
    run = RunRecord.at(tmp_path / "runs/test/des/seed0")
    assert Lineage([run]).stored(run.start) == Learngene.load(sws / "final.learngene.safetensors").num_parameters
    assert hub.requests == []


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        (
            "hf://lab/secret",
            "(Repository not found); check the name, or try again later",
        ),
        ("hf://lab/gated", "(Access to this model is restricted)"),
        ("hf://lab/vit@v9", "the Hugging Face hub does not give it ("),
        ("hf://lab/vit/x.safetensors", f"the repository has no such file; it has {FILE}"),
        ("hf://lab/vit/x.ckpt", "only safetensors files are read from elsewhere"),
        ("hf://lab/text", "holds no *.learngene.safetensors, and no config.json with model.safetensors"),
        ("hf://lab/pickle", "pickled weights are not read from elsewhere"),
        ("hf://lab/two", "holds 2 learngenes (a.learngene.safetensors, b.learngene.safetensors)"),
        ("hf://lab/html", "not an intact safetensors file"),
    ],
)
@pytest.mark.usefixtures("commit")
def test_each_mistake_gives_one_sentence(hub, source, sentence, tmp_path):
    hub.add("lab/secret", {FILE: b""}, private=True)
    hub.add("lab/gated", {FILE: b""}, gated=True)
    hub.add("lab/text", {"a.txt": b""})
    hub.add("lab/pickle", {"config.json": b"{}", "pytorch_model.bin": b""})
    hub.add("lab/two", {"a.learngene.safetensors": b"", "b.learngene.safetensors": b""})
    hub.add("lab/html", {FILE: b"<html>an error</html>"})
    result = refusal(init(source, tmp_path / "vit"))
    assert sentence in result
    assert source.partition("#")[0].split("/..")[0] in result
    assert not (tmp_path / "vit").exists()


@pytest.mark.parametrize("url", ["https://me:secret@host/a.safetensors", "s3://secret/a.ckpt", "file::x://secret"])
def test_a_url_is_refused_without_a_request_or_what_it_hides(url, tmp_path):
    for words in (["init", "--arch=6-Tiny", "--source", url], ["import", "vit_tiny_patch16_224", "--weights", url]):
        result = refusal(lgx(*words, "--out", tmp_path / "vit"))
        assert "URLs are not read; download the file" in result
        assert "secret" not in result
    assert resolve_kept(url).place == url  # a record of an earlier version may name it


def test_a_private_repository_is_read_with_a_token_that_nothing_shows(hub, sws_file, monkeypatch, tmp_path):
    hub.add("lab/secret", {FILE: Path(sws_file).read_bytes()}, private=True)
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    result = ok(init("hf://lab/secret", tmp_path / "vit"))
    written = "".join(file.read_text("utf-8", "replace") for file in (tmp_path / "vit").iterdir())
    assert TOKEN not in result.out + result.err + written


def test_offline_mode_asks_nobody(hub, commit, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"is not in the cache.*HF_HUB_OFFLINE is set"):
        resolve("hf://lab/vit")
    assert hub.requests == []
