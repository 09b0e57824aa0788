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
import pytest
from jsonargparse import Namespace
from lgx.artifacts.remote import checks, located, pinned, urls, without_downloads
from lgx.artifacts.timm_source import pinned_source

from lgx.artifacts.learngene import Learngene
from lgx.errors import UserError
from lgx.host.cache import cache_root
from lgx.training.sources import pin_sources
from tests.support.command_line import free_port, lgx
from tests.support.untrained_learngenes import BIG

FILE = "sws.learngene.safetensors"


class Web:
    """A folder that a server publishes, and the requests that it got."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.requests, self.url = folder, list[str](), ""
        self.hides_absent = False
        """Whether it answers 403 for files that it does not have, as stores whose folders cannot be listed."""


@contextmanager
def published(folder: Path) -> Iterator[Web]:
    web = Web(folder)

    class Handler(SimpleHTTPRequestHandler):
        def __init__(self, *args, **options):
            super().__init__(*args, directory=str(folder), **options)

        def send_error(self, code, *args):
            super().send_error(403 if code == 404 and web.hides_absent else code, *args)

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
    result = init(f"{web.url}/{FILE}", tmp_path / "vit")
    assert result.code == 0, result.err
    name = f"{web.url}/{FILE}#sha256={digest(sws_file)}"
    assert json.loads((tmp_path / "vit/lgx.json").read_text())["arguments"]["source"] == name
    web.requests.clear()
    assert init(name, tmp_path / "again").code == 0
    assert web.requests == []


def test_an_unchanged_file_is_not_downloaded_again_and_a_changed_one_is(web, ancestor_file):
    url = f"{web.url}/{FILE}"
    assert located(url) == located(url)
    assert len([line for line in web.requests if line.startswith("GET")]) == 1
    shutil.copy(ancestor_file, web.folder / FILE)
    os.utime(web.folder / FILE, (10**9, 10**9))  # the server tells versions apart by seconds
    assert Learngene.load(url).method == "ancestor"


def test_another_checksum_is_refused_and_nothing_is_kept(web):
    with pytest.raises(UserError, match=f"has the SHA-256 .*, expected {'a' * 64}"):
        located(f"{web.url}/{FILE}#sha256={'a' * 64}")
    assert not [path for path in (cache_root() / "sources").rglob("*") if path.is_file()]


def test_a_kept_file_is_read_without_a_network(web, capsys):
    url = f"{web.url}/{FILE}"
    path = located(url)
    gone = url.replace(web.url, f"http://127.0.0.1:{free_port()}")
    began = time.monotonic()
    with pytest.raises(UserError, match="cannot be reached"):
        located(gone)
    assert time.monotonic() - began < 12
    with without_downloads():
        assert located(url) == path
        with pytest.raises(UserError, match="has not been downloaded yet"):
            located(gone)


def test_the_kept_file_is_read_where_the_server_does_not_answer(sws_file, tmp_path, capsys):
    (tmp_path / "web").mkdir()
    shutil.copy(sws_file, tmp_path / "web" / FILE)
    with published(tmp_path / "web") as web:
        path = located(f"{web.url}/{FILE}")
    assert located(f"{web.url}/{FILE}") == path
    assert "is read" in capsys.readouterr().err


def test_a_model_folder_is_read_by_its_url(web, sws_file, tmp_path):
    assert init(sws_file, web.folder / "vit").code == 0
    (web.folder / "vit/pytorch_model.bin").write_bytes(b"pickle")
    result = init(f"{web.url}/vit/", tmp_path / "again")
    assert result.code == 0, result.err
    assert "method    sws from" in result.out
    assert "pytorch_model.bin" not in "".join(web.requests)
    web.requests.clear()
    name = pinned(f"{web.url}/vit")
    web.requests.clear()
    assert {path.name for path in Path(located(name)).iterdir() if not path.name.startswith(".")} == {
        "config.json", "model.safetensors", "lgx.json",
    }  # fmt: skip
    assert web.requests == []


def files_of(folder: str) -> set[str]:
    return {path.name for path in Path(folder).iterdir() if not path.name.startswith(".")}


@pytest.fixture
def model_folder(sws_file, tmp_path):
    """A folder that ``lgx init`` wrote, which a server can publish."""
    assert init(sws_file, tmp_path / "web/vit").code == 0
    (tmp_path / "web/vit/README.md").unlink()
    return tmp_path / "web"


def test_a_kept_folder_is_read_where_the_server_does_not_answer(model_folder, capsys):
    with published(model_folder) as web:
        path = located(f"{web.url}/vit")
        with without_downloads():
            assert located(f"{web.url}/vit") == path
    assert files_of(path) == {"config.json", "model.safetensors", "lgx.json"}
    capsys.readouterr()
    assert located(f"{web.url}/vit") == path
    assert capsys.readouterr().err.count("is read") == 1


def test_a_folder_whose_download_was_cut_off_is_not_taken_for_a_complete_one(model_folder, monkeypatch):
    fetch = urls._fetch

    def cut_off(url, file, expected):
        if url.endswith("lgx.json"):
            raise urls._OutOfReach(f"{url}: cannot be reached")
        return fetch(url, file, expected)

    with published(model_folder) as web:
        with monkeypatch.context() as patch:
            patch.setattr(urls, "_fetch", cut_off)
            for _ in range(2):
                with pytest.raises(UserError, match="cannot be reached"):
                    located(f"{web.url}/vit")
        assert "lgx.json" in files_of(located(f"{web.url}/vit"))


def test_a_store_that_answers_403_for_absent_files_gives_a_folder(model_folder):
    with published(model_folder) as web:
        web.hides_absent = True
        assert files_of(located(f"{web.url}/vit")) == {"config.json", "model.safetensors", "lgx.json"}
        with pytest.raises(UserError, match="the server answers 403"):
            located(f"{web.url}/none")


def test_a_file_that_was_removed_on_the_server_is_removed_from_the_kept_folder(model_folder):
    with published(model_folder) as web:
        path = located(f"{web.url}/vit")
        (model_folder / "vit/lgx.json").unlink()
        assert located(f"{web.url}/vit") == path
    assert files_of(path) == {"config.json", "model.safetensors"}


def test_a_read_only_cache_is_read(web, model_folder, monkeypatch):
    names = [pinned(f"{web.url}/{FILE}"), pinned(f"{web.url}/vit")]

    def refused(*_):
        raise PermissionError("read-only")

    monkeypatch.setattr(Path, "touch", refused)
    assert [pinned(name) for name in (*names, f"{web.url}/{FILE}", f"{web.url}/vit")] == [*names, *names]
    with without_downloads():
        assert [pinned(name) for name in names] == names


def test_any_file_system_of_fsspec_is_read(sws_file):
    system = fsspec.filesystem("memory")
    system.pipe_file(f"/bucket/{FILE}", Path(sws_file).read_bytes())
    assert Learngene.load(f"memory://bucket/{FILE}").method == "sws"
    assert Learngene.load(f"file://{sws_file}").method == "sws"


@pytest.mark.parametrize(
    ("source", "sentence"),
    [
        ("{web}/none.safetensors", "no such file; check the URL"),
        ("{web}/page.safetensors", "not an intact safetensors file"),
        ("{web}/short.safetensors", "not an intact safetensors file"),
        ("{web}/weights.pth", "no such file"),
        ("s3://bucket/a.safetensors", "a library is missing (Install s3fs to access S3); install it with pip"),
        ("nowhere://bucket/a.safetensors", "fsspec cannot open it (Protocol not known: nowhere)"),
        ("https://me:secret@host/a.safetensors", "the URL holds a password, which records would store"),
        ("https://ghp_secret@host/a.safetensors", "the URL holds a user or token, which records would store"),
        ("simplecache::https://me:secret@host/a.safetensors", "the URL holds a password, which records would store"),
        ("https://[secret/a.safetensors", "not a valid URL"),
        ("https://host/a.safetensors?X-Amz-Signature=secret", "the URL holds X-Amz-Signature"),
    ],
)
def test_each_mistake_gives_one_sentence(web, source, sentence, tmp_path):
    (web.folder / "page.safetensors").write_text("<html>an error</html>")
    (web.folder / "short.safetensors").write_bytes((web.folder / FILE).read_bytes()[:-8])
    result = init(source.replace("{web}", web.url), tmp_path / "vit")
    assert result.code == 2
    assert sentence in result.sentence
    assert "secret" not in result.sentence
    assert not (tmp_path / "vit").exists()
    assert not list((cache_root() / "sources").rglob("*.safetensors"))


def test_a_file_that_is_too_large_is_refused(web, monkeypatch):
    monkeypatch.setattr(checks, "LARGEST", 100)
    with pytest.raises(UserError, match="more than 100; download it, and give its path"):
        located(f"{web.url}/{FILE}")
    monkeypatch.setattr(checks, "LARGEST", 2**30)
    monkeypatch.setattr(urls, "LARGEST", 100)
    with pytest.raises(UserError, match="is larger than 100 bytes"):
        located(f"{web.url}/{FILE}")


def test_weights_of_a_timm_model_are_read_by_url(web, tmp_path):
    arch = "timm:vit_tiny_patch16_224,img_size=32,patch_size=16"
    assert lgx("init", "--arch", f"{arch}", "--num_classes", 3, "--out", web.folder / "v.safetensors").code == 0
    weights = f"{web.url}/v.safetensors"
    options = ["--img_size", 32, "--num_classes", 3, "--out", tmp_path / "vit"]
    result = lgx("import", "timm:vit_tiny_patch16_224", "--weights", weights, *options)
    assert result.code == 0, result.err
    source = f"timm:vit_tiny_patch16_224,weights={weights},img_size=32,num_classes=3"
    spec = "depth=12,embed_dim=192,num_heads=3,patch_size=16,img_size=32"
    result = lgx("init", "--source", source, "--arch", spec, "--out", tmp_path / "start")
    assert result.code == 0, result.err
    recorded = json.loads((tmp_path / "start/lgx.json").read_text())["arguments"]["source"]
    assert recorded == source.replace(weights, f"{weights}#sha256={digest(web.folder / 'v.safetensors')}")
    assert pinned_source(recorded) == recorded


def test_a_run_records_the_version_of_the_weights_of_a_timm_model(web):
    name = f"{web.url}/{FILE}"
    config = Namespace(model=Namespace(ancestor=f"timm:vit_tiny_patch16_224,weights={name}", arch="timm:resnet34"))
    pin_sources(config)
    sha = digest(web.folder / FILE)
    assert config.model.ancestor == f"timm:vit_tiny_patch16_224,weights={name}#sha256={sha}"
    assert config.model.arch == "timm:resnet34"
