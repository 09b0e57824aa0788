"""Foreign shards, images, texts, archives and folders run no code, write no other files, and take little memory."""

import gzip
import io
import json
import os
import pickle
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from data_modules import CIFAR10
from data_modules.files.archives import unzip
from data_modules.images.examples import ImageFiles
from data_modules.own_images.class_folders import ImageFolderData
from data_modules.sets.inaturalist import INaturalist2019
from data_modules.sets.torchvision_sets import FGVCAircraft
from data_modules.shards.module import ShardedData
from data_modules.shards.writing import write_shards
from data_modules.suites.mini_archives import read_zip
from lgx.commands.data import prepare
from lgx.errors import UserError
from lgx.host.images import ImageReader
from lgx.host.safety import open_image
from tests.support import fake_data
from tests.support.command_line import lgx, refusal
from tests.support.hostile import Payload
from tests.support.images import write_images
from tests.support.picture_files import pil, tar


def shard(path: Path, members: dict[str, bytes]) -> Path:
    """A tar file in place of the first training shard of a set."""
    path.write_bytes(tar(members.items()))
    return path


def png(size: tuple[int, int] = (8, 8)) -> bytes:
    return pil(np.zeros((*size[::-1], 3), np.uint8), "png")


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A shard with one example in a set whose index expects one."""
    for split in ("train", "val"):
        write_shards(fake_data.numbered(1), tmp_path / "toy", split, fake_data.TOY)
    return tmp_path / "toy" / "train-000000.tar"


def read(shard_: Path) -> Any:
    for in_memory in (False, True):
        module = ShardedData(name="toy", root=str(shard_.parent.parent), in_memory=in_memory, batch_size=1, img_size=8)
        module.setup("fit")
        batch = next(iter(module.train_dataloader()))
    return batch


@pytest.mark.parametrize("suffix", ["pyd", "pkl", "pickle", "pth", "pt", "npy", "ten", "mp"])
def test_members_that_webdataset_would_decode_stay_bytes(toy, evidence, suffix):
    payload = pickle.dumps(Payload(evidence))
    read(shard(toy, {"a.png": png(), "a.cls": b"0", f"a.{suffix}": payload}))
    assert not evidence.exists()
    shard(toy, {f"a.{suffix}": payload, "a.cls": b"0"})
    with pytest.raises(UserError, match="has no image"):
        read(toy)
    assert not evidence.exists()


DAMAGE: dict[str, Callable[[Path], Any]] = {
    "compressed": lambda path: path.write_bytes(gzip.compress(path.read_bytes())),
    "no class": lambda path: shard(path, {"a.png": png()}),
    "a class beyond all": lambda path: shard(path, {"a.png": png(), "a.cls": b"999999"}),
    "a negative class": lambda path: shard(path, {"a.png": png(), "a.cls": b"-1"}),
    "a text for a class": lambda path: shard(path, {"a.png": png(), "a.cls": b"x"}),
    "a line": lambda path: shard(path, {"a.png": png((1, 60_000)), "a.cls": b"0"}),
    "postscript": lambda path: shard(
        path, {"a.png": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "a.cls": b"0"}
    ),
    "a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "a folder": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_hostile_shard_is_named(toy, name):
    DAMAGE[name](toy)
    with pytest.raises(UserError, match=r"train-000000\.tar"):
        read(toy)


def test_only_known_image_formats_are_opened(tmp_path):
    picture = Image.new("RGB", (8, 8))
    for form in ("tiff", "pcx", "sgi", "ico", "tga", "eps"):
        picture.save(tmp_path / "x.png", form)
        with pytest.raises(OSError, match="cannot identify"):
            open_image(tmp_path / "x.png")
    picture.save(tmp_path / "x.eps")
    with Image.open(tmp_path / "x.eps") as opened, pytest.raises(OSError, match="Ghostscript"):
        opened.load()  # as torchvision's readers would
    for form in ("bmp", "gif", "jpeg", "png", "ppm", "webp"):
        picture.save(tmp_path / "x.png", form)
        assert ImageReader()(tmp_path / "x.png").size == (8, 8)


OUTSIDE = ["../evil", "/evil", "a/../../evil", "..\\evil", "\\evil", "C:\\evil", "./../evil"]


def tar_with(path: Path, name: str, kind: bytes = tarfile.REGTYPE, target: str = "") -> Path:
    with tarfile.open(path, "w:gz") as tar:
        member = tarfile.TarInfo(name)
        member.type, member.linkname, member.mode = kind, target, 0o6755
        member.size = 4 if kind == tarfile.REGTYPE else 0
        tar.addfile(member, io.BytesIO(b"evil") if kind == tarfile.REGTYPE else None)
    return path


MEMBERS = {
    **{name: (name, tarfile.REGTYPE, "") for name in OUTSIDE},
    "a symbolic link": ("fgvc-aircraft-2013b/link", tarfile.SYMTYPE, "/etc/passwd"),
    "a symbolic link up": ("fgvc-aircraft-2013b/link", tarfile.SYMTYPE, "../../.."),
    "a hard link": ("fgvc-aircraft-2013b/link", tarfile.LNKTYPE, "/etc/passwd"),
    "a device": ("fgvc-aircraft-2013b/null", tarfile.CHRTYPE, ""),
    "a pipe": ("fgvc-aircraft-2013b/pipe", tarfile.FIFOTYPE, ""),
}


@pytest.mark.parametrize("name", MEMBERS)
def test_an_archive_that_torchvision_unpacks_writes_nothing_outside(tmp_path, name):
    source, root = tmp_path / "source", tmp_path / "data"
    source.mkdir()
    member, kind, target = MEMBERS[name]
    archive = tar_with(source / FGVCAircraft.archives[0].filename, member, kind, target)
    sentence = refusal(lgx("data", "prepare", "fgvc_aircraft", "--root", root, "--source", source))
    assert str(archive) in sentence
    assert repr(member)[1:-1] in sentence
    assert sorted(p.name for p in tmp_path.rglob("*")) in (
        [archive.name, "source"], sorted([archive.name, "source", "data"]),
    )  # fmt: skip


@pytest.mark.parametrize("name", [*OUTSIDE, "link"])
@pytest.mark.parametrize("unpack", [lambda path, out: unzip([path], out), lambda path, out: read_zip(path)])
def test_a_zip_writes_nothing_outside_and_no_link(tmp_path, unpack, name):
    path = tmp_path / "in" / "x.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("train/a/1.png", png())
        info = zipfile.ZipInfo("x")
        info.filename = f"{name}.png"  # the constructor would repair it
        if name == "link":
            info.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(info, png())
    with pytest.raises(UserError, match=r"x\.zip: its member .* (outside the folder|is a symbolic link)"):
        unpack(path, tmp_path / "out")
    assert [p.name for p in tmp_path.iterdir()] == ["in"]


def test_shards_do_not_follow_links(tmp_path):
    write_images(tmp_path / "mine", {"train": 6, "val": 3, "test": 3})
    secret = tmp_path / "secret"
    secret.write_text("secret")
    picture = tmp_path / "mine" / "train" / "circle" / "000.png"
    kept = tmp_path / "kept.png"
    picture.rename(kept)
    picture.symlink_to(kept)  # folders of links to a subset of the images are common, and stay possible
    module = ImageFolderData(str(tmp_path / "mine"))
    files = module.read("train")
    assert isinstance(files, ImageFiles)
    assert all(files.encoded(i) for i in range(len(files)))
    for target in (secret, Path("/dev/zero"), Path("/nowhere")):
        picture.unlink()
        picture.symlink_to(target)
        with pytest.raises(UserError, match=r"circle/000\.png (is not an image|cannot be decoded)"):
            write_shards(module.read("train"), tmp_path / "shards", "train", module.info)
        with pytest.raises(UserError, match=r"circle/000\.png cannot be decoded"):
            [module.read("train")[i] for i in range(6)]
    assert not any(b"secret" in p.read_bytes() for p in tmp_path.rglob("*.tar"))


def test_links_in_a_source_are_not_followed(tmp_path):
    source = tmp_path / "source"
    for k, split in enumerate(("train", "test")):
        fake_data.class_tree(source / split, list(CIFAR10.info.class_names), 2, k)
    picture = next((source / "train").rglob("*.png"))
    picture.unlink()
    picture.symlink_to("/etc/passwd")
    with pytest.raises(UserError, match="is not an image"):
        prepare("cifar10", root=str(tmp_path / "data"), source=str(source), shards=True)
    assert not list((tmp_path / "data").rglob("*.tar"))
    assert not any("root:" in p.read_text(errors="replace") for p in (tmp_path / "data").rglob("*") if p.is_file())


def test_tables_cannot_name_files_outside_their_folder(tmp_path, monkeypatch):
    fake_data.inat2019(tmp_path, monkeypatch)
    table = tmp_path / "inat2019" / "train2019.json"
    content = json.loads(table.read_text())
    for name in ("/etc/passwd", "../../secret.jpg"):
        content["images"][0]["file_name"] = name
        table.write_text(json.dumps(content))
        with pytest.raises(UserError, match="outside its folder"):
            INaturalist2019(root=str(tmp_path)).read("train")
