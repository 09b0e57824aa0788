"""``lgx push`` uploads to a stand-in of the hub, and ``lgx init`` starts from the upload."""

import json
import shutil
import time

import pytest

import lgx as lgx_package
from lgx.architectures import GPT2Architecture
from lgx.artifacts.export import write_text_descendant
from lgx.host import hub as core_hub
from lgx.results.licenses import license_of
from tests.support import fake_hub
from tests.support.command_line import ARCH, lgx, python
from tests.support.extras import import_transformers
from tests.support.fake_hub import TOKEN, running_hub, use_hub
from tests.support.untrained_learngenes import BIG, write_sws

DESCENDANT = ARCH.replace("depth=4", "depth=3")
FILE = "best.learngene.safetensors"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    with running_hub() as served:
        use_hub(monkeypatch, served.url, str(tmp_path / "hub"), TOKEN)
        yield served


@pytest.fixture
def folder(sws, tmp_path):
    assert lgx("init", "--source", sws / FILE, "--arch", DESCENDANT, "--out", tmp_path / "vit").code == 0
    return tmp_path / "vit"


def files_of(hub, name, branch="main"):
    repository = hub.repositories[name]
    return repository.commits[repository.branches[branch]]


def test_a_learngene_is_uploaded_with_a_card_and_starts_the_same_descendant(hub, sws, folder, tmp_path):
    result = lgx("push", sws / FILE, "hf://lab/new", "--private")
    assert result.code == 0, result.err
    assert TOKEN not in result.out + result.err
    repository = hub.repositories["lab/new"]
    assert repository.private
    assert files_of(hub, "lab/new")[FILE] == (sws / FILE).read_bytes()
    card = files_of(hub, "lab/new")["README.md"].decode()
    for part in (
        "library_name: lgx", "Exploring Learngene via Stage-wise", "https://arxiv.org/abs/2404.16897",
        "| data | shapes |", "| ancestor | test/ancestor/seed0/best.learngene.safetensors |",
        "license of the ancestor's weights | unknown", 'model = lgx.init("hf://lab/new", ',
        "| sws | ", "| val |", "acc (%)",
    ):  # fmt: skip
        assert part in card, card
    assert str(tmp_path.parent) not in card
    name = result.out.splitlines()[-1].removeprefix("pushed    ")
    assert name == f"hf://lab/new@{repository.branches['main']}"
    assert lgx("init", "--source", name, "--arch", DESCENDANT, "--out", tmp_path / "again").code == 0
    weights = [(place / "model.safetensors").read_bytes() for place in (folder, tmp_path / "again")]
    assert weights[0] == weights[1]


def test_a_second_upload_is_a_commit_and_a_branch_is_made(hub, sws):
    for name in ("hf://lab/two", "hf://lab/two@next"):
        assert lgx("push", sws / FILE, name).code == 0
    assert {*hub.repositories["lab/two"].branches} == {"main", "next"}
    assert not hub.repositories["lab/two"].private
    assert lgx_package.load_learngene("hf://lab/two@next").method == "sws"


def test_a_descendants_folder_is_uploaded_without_what_does_not_belong_to_it(hub, folder, tmp_path):
    (folder / "notes.txt").write_text("mine")
    result = lgx("push", folder, "hf://lab/des")
    assert result.code == 0, result.err
    assert "left out  notes.txt" in result.out
    assert "a path of this machine" in result.out
    uploaded = files_of(hub, "lab/des")
    assert {*uploaded} == {".gitattributes", "README.md", "config.json", "model.safetensors", "lgx.json"}
    card = uploaded["README.md"].decode()
    assert 'timm.create_model("hf-hub:lab/des", pretrained=True)' in card
    assert "SWS: Xia et al." in card
    assert lgx("init", "--source", "hf://lab/des", "--arch", DESCENDANT, "--out", tmp_path / "again").code == 0
    assert json.loads((tmp_path / "again/lgx.json").read_text())["method"] == "sws"


def test_absolute_paths_among_the_arguments_of_a_start_are_noted(hub, folder):
    record = json.loads((folder / "lgx.json").read_text())
    record["arguments"] |= {"task_embeddings": "/data/mine/tasks.safetensors", "order": "front_last_mid"}
    (folder / "lgx.json").write_text(json.dumps(record))
    result = lgx("push", folder, "hf://lab/des", "--dry-run")
    assert "the files name '/data/mine/tasks.safetensors', a path of this machine" in result.out
    assert result.out.count("a path of this machine") == 2
    assert "front_last_mid" not in result.out


def test_the_card_of_a_text_model_on_a_branch_names_the_branch_as_transformers_does(hub, tmp_path):
    import_transformers()
    write_text_descendant(tmp_path / "text", GPT2Architecture(1, 16, 2, 16, 32, 3).build())
    result = lgx("push", tmp_path / "text", "hf://lab/text@next", "--dry-run")
    assert result.code == 0, result.err
    assert '.from_pretrained("lab/text", revision="next")' in result.out


def test_a_dry_run_shows_files_and_card_and_sends_nothing(hub, sws, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    result = lgx("push", sws / FILE, "hf://lab/new", "--dry-run")
    assert result.code == 0, result.err
    assert f"upload    {FILE}, {(sws / FILE).stat().st_size:,} bytes" in result.out
    assert "## Measured" in result.out
    assert hub.requests == []


def test_the_numbers_of_other_runs_are_shown(hub, sws, ancestor):
    result = lgx("push", sws / FILE, "hf://lab/new", "--dry-run", "--runs", f"[{sws},{ancestor}]")
    assert result.code == 0, result.err
    assert "| ancestor | " in result.out
    assert "| sws | " in result.out


def test_the_python_function_returns_the_name_of_the_upload(hub, sws):
    name = lgx_package.push_to_hub(str(sws / FILE), "hf://lab/py", runs=[str(sws)])
    assert lgx_package.load_learngene(name).method == "sws"


@pytest.mark.parametrize(
    ("place", "repository", "sentence"),
    [
        ("none.learngene.safetensors", "hf://lab/new", "no such file"),
        ("nothing", "hf://lab/new", "expected a learngene file (*.learngene.safetensors), or a model folder"),
        (".", "hf://lab/new", "or a model folder that holds model.safetensors"),
        (None, "lab/new", "expected hf://ORGANIZATION/NAME"),
        (None, f"hf://lab/new@{'a' * 40}", "expected hf://org/name, with @BRANCH"),
        (None, "hf://lab/new/a.safetensors", "files keep their names"),
    ],
)
def test_each_mistake_gives_one_sentence(hub, sws_file, place, repository, sentence, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    result = lgx("push", place or sws_file, repository)
    assert result.code == 2
    assert sentence in result.sentence
    assert not hub.requests_of("POST")


def test_a_missing_or_refused_token_gives_one_sentence(hub, sws_file, monkeypatch):
    monkeypatch.delenv("HF_TOKEN")
    assert "an upload needs a token; log in with `hf auth login`" in lgx("push", sws_file, "hf://lab/new").sentence
    monkeypatch.setenv("HF_TOKEN", "hf_expired")
    refused = lgx("push", sws_file, "hf://lab/new")
    assert refused.code == 2
    assert "Invalid" in refused.sentence or "401" in refused.sentence
    hub.add("other/theirs", {"a.txt": b""})
    assert "no right to write" in lgx("push", sws_file, "hf://other/theirs").sentence
    assert "hf_expired" not in refused.out + refused.err


def test_a_hub_that_answers_once_and_then_stalls_is_not_waited_for_without_an_end(hub, sws_file, monkeypatch):
    monkeypatch.setattr(core_hub, "_STALLED", 1.0)
    monkeypatch.setitem(fake_hub._ROUTES, r"POST /api/repos/create", lambda handler: time.sleep(12))
    began = time.monotonic()
    result = lgx("push", sws_file, "hf://lab/new")
    assert time.monotonic() - began < 8
    assert result.code == 2
    assert "the Hugging Face hub fails (timed out)" in result.sentence


@pytest.mark.parametrize(
    ("source", "license"),
    [
        ("levit_384.fb_dist_in1k", "apache-2.0"),
        ("timm:deit_tiny_patch16_224,img_size=64", "apache-2.0"),
        ("hf-hub:timm/levit_384.fb_dist_in1k", "apache-2.0"),
        ("timm:deit_tiny_patch16_224,weights=mine.pth", "unknown"),
        ("runs/a/best.learngene.safetensors", "unknown"),
    ],
)
def test_the_license_of_an_ancestor_is_that_which_timm_states(source, license):
    assert license_of(source) == license


@pytest.mark.slow
def test_the_endpoint_and_the_token_of_the_environment_are_used(tmp_path):
    file = write_sws(str(tmp_path / "sws.learngene.safetensors"))
    with running_hub() as hub:
        env = {"HF_ENDPOINT": hub.url, "HF_TOKEN": TOKEN, "HF_HOME": str(tmp_path / "hub"), "HF_HUB_DISABLE_XET": "1"}
        done = python("-m", "lgx", "push", file, "hf://lab/env", cwd=tmp_path, **env)
        assert done.returncode == 0, done.stderr
        shutil.rmtree(tmp_path / "hub", ignore_errors=True)
        arch = BIG.replace(depth=4).spec()
        words = ("init", "--source", "hf://lab/env", "--arch", arch, "--out", tmp_path / "vit")
        done = python("-m", "lgx", *words, cwd=tmp_path, **env)
        assert done.returncode == 0, done.stderr
        assert hub.repositories["lab/env"].branches["main"] in done.stderr
