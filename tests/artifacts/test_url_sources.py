"""Sources by URL, from a local HTTP server and from file systems of fsspec."""

import hashlib
import json
import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import fsspec
import huggingface_hub
import pytest
import timm
import torch
from fsspec.implementations.http import HTTPFileSystem

from lgx.architectures import GPT2Architecture
from lgx.artifacts import safety
from lgx.artifacts.export import write_text_descendant
from lgx.artifacts.learngene import Learngene
from lgx.artifacts.pretrained import load_pretrained
from lgx.artifacts.sources import resolve
from lgx.errors import UserError
from lgx.host import hub
from lgx.host.cache import cache_root
from tests.support.command_line import free_port, lgx, ok, refusal
from tests.support.forks import PROCESSES, adopt
from tests.support.hub import CLOSED, silent_hub
from tests.support.untrained_learngenes import BIG

FILE = "sws.learngene.safetensors"


class Web:
    """A folder that a server publishes, and the requests that it got."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.requests, self.url = folder, list[str](), ""


@contextmanager
def published(folder: Path) -> Iterator[Web]:
    web = Web(folder)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args, **options):
            super().__init__(*args, directory=str(folder), **options)

        def log_message(self, *_):
            web.requests.append(f"{self.command} {self.path}")

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    web.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()


@pytest.fixture
def web(sws_file, tmp_path):
    folder = tmp_path / "web"
    folder.mkdir()
    shutil.copy(sws_file, folder / FILE)
    with published(folder) as server:
        yield server


def digest(path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def init(source, out):
    return lgx("init", "--source", source, "--arch", BIG.replace(depth=4).spec(), "--out", out)


def test_a_file_is_read_by_its_url_and_the_record_holds_its_checksum(web, sws_file, tmp_path):
    ok(init(f"{web.url}/{FILE}", tmp_path / "vit"))
    name = f"{web.url}/{FILE}#sha256={digest(sws_file)}"
    assert json.loads((tmp_path / "vit/lgx.json").read_text())["arguments"]["source"] == name
    web.requests.clear()
    assert init(name, tmp_path / "again").code == 0
    assert web.requests == []


def test_an_unchanged_file_is_not_downloaded_again_and_a_changed_one_is(web, ancestor_file):
    url = f"{web.url}/{FILE}"
    assert resolve(url) == resolve(url)
    assert len([line for line in web.requests if line.startswith("GET")]) == 1
    shutil.copy(ancestor_file, web.folder / FILE)
    os.utime(web.folder / FILE, (10**9, 10**9))  # the server tells versions apart by seconds
    assert Learngene.load(resolve(url).place).method == "ancestor"


def test_another_checksum_is_refused_and_nothing_is_kept(web):
    with pytest.raises(UserError, match=f"has the SHA-256 .*, expected {'a' * 64}"):
        resolve(f"{web.url}/{FILE}#sha256={'a' * 64}")
    assert not [path for path in (cache_root() / "sources").rglob("*") if path.is_file()]


def test_the_kept_file_is_read_where_the_server_does_not_answer(sws_file, tmp_path, capsys):
    (tmp_path / "web").mkdir()
    shutil.copy(sws_file, tmp_path / "web" / FILE)
    with published(tmp_path / "web") as web:
        kept = resolve(f"{web.url}/{FILE}")
    assert resolve(f"{web.url}/{FILE}") == resolve(f"{web.url}/{FILE}", download=False) == kept
    assert "is read" in capsys.readouterr().err
    gone, began = f"http://127.0.0.1:{free_port()}/{FILE}", time.monotonic()
    with pytest.raises(UserError, match="cannot be reached"):
        resolve(gone)
    assert time.monotonic() - began < 12
    with pytest.raises(UserError, match="has not been downloaded yet"):
        resolve(gone, download=False)


def test_a_kept_file_that_was_altered_is_not_read(web, sws_file, ancestor_file):
    kept = resolve(f"{web.url}/{FILE}")
    shutil.copy(ancestor_file, kept.place)  # intact, but another file
    with pytest.raises(UserError, match="has not been downloaded yet"):
        resolve(kept.name, download=False)
    assert resolve(f"{web.url}/{FILE}") == resolve(kept.name) == kept
    assert digest(kept.place) == digest(sws_file)


@pytest.mark.slow
def test_of_several_processes_one_downloads(web):
    source = f"{web.url}/{FILE}"
    with PROCESSES.Pool(2, adopt, [dict(os.environ)]) as pool:
        kept = pool.map(resolve, [source] * 2, chunksize=1)
    assert kept == [resolve(source)] * 2
    assert len([line for line in web.requests if line.startswith("GET")]) == 1


def test_a_read_only_cache_is_read(web, monkeypatch):
    kept = resolve(f"{web.url}/{FILE}")

    def refused(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "touch", refused)
    assert resolve(kept.name) == resolve(f"{web.url}/{FILE}") == resolve(kept.name, download=False) == kept


def test_any_file_system_of_fsspec_is_read(sws_file):
    system = fsspec.filesystem("memory")
    system.pipe_file(f"/bucket/{FILE}", Path(sws_file).read_bytes())
    assert Learngene.load(resolve(f"memory://bucket/{FILE}").place).method == "sws"
    assert Learngene.load(resolve(f"file://{sws_file}").place).method == "sws"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{web}/none.safetensors", "no such file; check the URL"),
        ("{web}/short.safetensors", "not an intact safetensors file"),
        ("{web}/vit", "a URL names one file that ends in .safetensors; read a model folder from the hub"),
        ("s3://bucket/a.safetensors", "a library is missing (Install s3fs to access S3); install it with pip"),
        ("nowhere://bucket/a.safetensors", "Protocol not known: nowhere; check the URL"),
        ("https://ghp_secret@host/a.safetensors", "the URL holds a user or token, which records would store"),
        ("simplecache::https://me:secret@host/a.safetensors", "the URL holds a password, which records would store"),
        ("https://[secret/a.safetensors", "not a valid URL"),
        ("https://host/a.safetensors?X-Amz-Signature=secret", "the URL holds X-Amz-Signature"),
    ],
)
def test_each_mistake_gives_one_sentence(web, source, sentence, tmp_path):
    (web.folder / "short.safetensors").write_bytes((web.folder / FILE).read_bytes()[:-8])
    result = refusal(init(source.replace("{web}", web.url), tmp_path / "vit"))
    assert sentence in result
    assert "secret" not in result
    assert not (tmp_path / "vit").exists()
    assert not list((cache_root() / "sources").rglob("*.safetensors"))


@pytest.mark.parametrize("source", ["{web}/", "file://{folder}/", "simplecache::file://{folder}/"])
def test_a_file_that_is_too_large_is_refused(web, source, monkeypatch):
    monkeypatch.setattr(safety, "LARGEST", 100)
    with pytest.raises(UserError, match="is larger than 100 bytes"):
        resolve(source.format(web=web.url, folder=web.folder) + FILE)


def test_a_download_ends_where_the_server_sends_more_than_allowed(web, monkeypatch):
    monkeypatch.setattr(safety, "LARGEST", 100)
    monkeypatch.setattr(HTTPFileSystem, "info", lambda *_, **__: {"size": None})
    with pytest.raises(UserError, match="is larger than 100 bytes"):
        resolve(f"{web.url}/{FILE}")


def test_weights_of_a_timm_model_are_read_by_url(web, tmp_path):
    arch = "timm:vit_tiny_patch16_224,img_size=32,patch_size=16"
    assert lgx("init", "--arch", f"{arch}", "--num_classes", 3, "--out", web.folder / "v.safetensors").code == 0
    weights = f"{web.url}/v.safetensors"
    options = ["--img_size", 32, "--num_classes", 3, "--out", tmp_path / "vit"]
    ok(lgx("import", "timm:vit_tiny_patch16_224", "--weights", weights, *options))
    source = f"timm:vit_tiny_patch16_224,weights={weights},img_size=32,num_classes=3"
    spec = "depth=12,embed_dim=192,num_heads=3,patch_size=16,img_size=32"
    ok(lgx("init", "--source", source, "--arch", spec, "--out", tmp_path / "start"))
    recorded = json.loads((tmp_path / "start/lgx.json").read_text())["arguments"]["source"]
    assert recorded == source.replace(weights, f"{weights}#sha256={digest(web.folder / 'v.safetensors')}")
    assert resolve(recorded).name == recorded


NAME = "vit_tiny_patch16_224.augreg_in21k_ft_in1k"


GPT2 = "gpt2:openai-community/gpt2"


@pytest.fixture
def no_network(monkeypatch, tmp_path):
    """A machine without a network: the hub's address refuses connections, and the cache is empty."""
    hub.failure_of.cache_clear()
    monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", CLOSED)
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


REMEDIES = {
    NAME: f"`lgx import {NAME} --weights FILE --out FOLDER` reads a file of weights",
    f"hf-hub:timm/{NAME}": f"`lgx import {NAME} --weights FILE --out FOLDER` reads a file of weights",
    GPT2: "give a folder that transformers' save_pretrained wrote",
}


@pytest.mark.usefixtures("no_network")
@pytest.mark.parametrize("silent", [False, True])
@pytest.mark.parametrize("name", REMEDIES)
def test_a_name_without_a_network_gives_one_sentence_within_seconds(monkeypatch, name, silent):
    monkeypatch.setattr(hub, "SECONDS", 1.0)
    with silent_hub() as address:
        monkeypatch.setattr(huggingface_hub.constants, "ENDPOINT", address if silent else CLOSED)
        began = time.monotonic()
        with pytest.raises(UserError) as error:
            load_pretrained(name)
        assert time.monotonic() - began < 8
    said = str(error.value)
    assert said.startswith(f"{name}: is not in the cache, and the Hugging Face hub cannot be reached (")
    assert said.endswith(f"; without a network, {REMEDIES[name]}")


def test_a_cached_gpt2_is_read_without_a_network(no_network):
    pytest.importorskip("transformers")
    model = GPT2Architecture(1, 16, 2, 16, 32, 3).build()
    folder = no_network / "models--openai-community--gpt2"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    write_text_descendant(folder / "snapshots" / ("a" * 40), model)
    loaded = load_pretrained(GPT2)
    assert torch.equal(loaded.tensors["score.weight"], model.score.weight)


def test_cached_weights_are_read_without_a_network(no_network):
    model = timm.create_model(NAME)
    folder = no_network / f"models--timm--{NAME}"
    (folder / "refs").mkdir(parents=True)
    (folder / "refs/main").write_text("a" * 40)
    timm.models.save_for_hf(model, str(folder / "snapshots" / ("a" * 40)), safe_serialization=True)
    for name in (NAME, f"hf-hub:timm/{NAME}"):
        loaded = load_pretrained(name)
        assert torch.equal(loaded.tensors["pos_embed"], model.pos_embed)
        assert loaded.mean == (0.5, 0.5, 0.5)


@pytest.mark.usefixtures("no_network")
def test_offline_mode_makes_no_request(monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match=r"not in the cache.*HF_HUB_OFFLINE"):
        load_pretrained(NAME)
