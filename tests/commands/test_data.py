"""``lgx data``: listing and preparing data sets, and messages about missing or damaged files."""

import json
import shutil
import urllib.error
import zipfile
from pathlib import Path

import pytest

from data_modules import CIFAR10, DTD, Caltech101, FashionMNIST, Flowers102, ShardedData
from data_modules.catalog import facts
from data_modules.registry import IMAGE_SETS, SUITES, TEXT_SETS
from data_modules.sets import bring as preparing
from data_modules.sets.official import Archive
from lgx.commands import data
from lgx.commands.data import list_sets, prepare
from lgx.errors import UserError
from tests.support import fake_data
from tests.support.command_line import lgx, refusal

TEN = list(CIFAR10.info.class_names)


def zipped(folder: Path, target: Path, inside: str) -> None:
    with zipfile.ZipFile(target, "w") as archive:
        for path in sorted(folder.rglob("*.png")):
            archive.write(path, f"{inside}/{path.relative_to(folder)}")


@pytest.fixture
def zips(tmp_path: Path) -> Path:
    """A folder with train.zip and test.zip of CIFAR-10's class folders."""
    source = tmp_path / "zips"
    source.mkdir()
    for k, split in enumerate(("train", "test")):
        fake_data.class_tree(tmp_path / split, TEN, 2, k)
        zipped(tmp_path / split, source / f"{split}.zip", split)
    return source


def visible(root: Path) -> list[str]:
    return sorted(p.name for p in root.iterdir() if p.name != ".downloads") if root.exists() else []


def test_list_shows_every_set_as_a_table_and_as_json(tmp_path, zips, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "160")
    prepare("cifar10", root=str(tmp_path / "data"), source=str(zips))
    capsys.readouterr()
    list_sets(str(tmp_path / "data"))
    table = capsys.readouterr().out
    for name in ("cifar100", "imagenet", "pocket_world", "1,268,355"):
        assert name in table
    list_sets(str(tmp_path / "data"), json=True)
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(rows) == {*IMAGE_SETS, *TEXT_SETS, *(task for suite in SUITES.values() for task in suite.tasks)}
    assert [name for name, row in rows.items() if row["present"]] == ["cifar10"]
    assert rows["fashion_mnist"]["sizes"] == {"train": 54_000, "val": 6_000, "test": 10_000}


def test_the_table_of_the_command_is_that_of_the_registry():
    rows = facts()
    expected = "[\n" + ",\n".join(json.dumps(row) for row in rows) + "\n]\n"
    table = Path(data.__file__).with_name("data_sets.json")
    assert table.read_text("utf-8") == expected


@pytest.mark.parametrize("kind", [*IMAGE_SETS.values()], ids=[*IMAGE_SETS])
def test_a_set_is_there_if_one_form_of_its_files_is(kind, tmp_path):
    assert kind.markers()
    for number, names in enumerate(kind.markers()):
        root = tmp_path / str(number)
        for name in names:
            assert not kind.is_present(root)
            path = root / kind.info.name / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.mkdir() if name.endswith("/") else path.touch()
        assert kind.is_present(root)


def test_debians_idx_files_go_where_torchvision_expects_them(tmp_path, capsys):
    root = tmp_path / "data"
    fake_data.fashion_idx(tmp_path / "idx", packed=True)
    prepare("fashion_mnist", root=str(root), source=str(tmp_path / "idx"))
    assert "54 train, 6 val, 20 test" in capsys.readouterr().out
    assert len(FashionMNIST(root=str(root)).read("test")) == 20
    assert visible(root) == ["fashion_mnist"]


def test_zips_of_class_folders_are_unpacked_and_sharded(tmp_path, zips):
    root = tmp_path / "data"
    prepare("cifar10", root=str(root), source=str(zips), shards=True, shard_size=7)
    prepare("cifar10", root=str(root))  # already there: nothing to download
    shards = ShardedData(name="cifar10_shards", root=str(root))
    assert [len(shards.read(s)) for s in ("train", "val", "test")] == [18, 2, 20]
    assert shards.info.sizes == (18, 2, 20)
    assert shards.task.name == "cifar10"
    assert visible(root) == ["cifar10", "cifar10_shards"]


def test_class_folders_are_linked_not_copied(tmp_path, zips):
    source = tmp_path / "tree"
    for k, split in enumerate(("train", "test")):
        fake_data.class_tree(source / split, TEN, 2, k)
    prepare("cifar10", root=str(tmp_path / "data"), source=str(source))
    assert (tmp_path / "data" / "cifar10").is_symlink()


def test_a_damaged_zip_leaves_no_partial_files(tmp_path, zips):
    data = bytearray((zips / "test.zip").read_bytes())
    data[200:260] = b"\0" * 60
    (zips / "test.zip").write_bytes(data)
    with pytest.raises(UserError, match=r"test\.zip is incomplete or corrupted"):
        prepare("cifar10", root=str(tmp_path / "data"), source=str(zips))
    assert visible(tmp_path / "data") == []


def test_downloaded_archives_are_unpacked_by_torchvision(tmp_path, monkeypatch):
    fake_data.dtd(tmp_path / "made", monkeypatch)
    archive = shutil.make_archive(str(tmp_path / "dtd"), "gztar", tmp_path / "made" / "dtd" / "dtd")
    source = tmp_path / "downloads"
    source.mkdir()
    target = source / "dtd-r1.0.1.tar.gz"
    Path(archive).rename(target)
    with pytest.raises(UserError, match="wrong md5"):
        prepare("dtd", root=str(tmp_path / "data"), source=str(source))
    monkeypatch.setattr(DTD, "archives", (Archive(DTD.archives[0].url, fake_data.md5(target), "dtd"),))
    prepare("dtd", root=str(tmp_path / "data"), source=str(source))
    assert len(DTD(root=str(tmp_path / "data")).read("val")) == 6
    assert not list((tmp_path / "data").rglob("*.tar.gz"))
    assert target.exists()


def test_an_archive_in_an_archive_is_unpacked(tmp_path, monkeypatch):
    fake_data.caltech101(tmp_path / "made", monkeypatch)
    made, packed = tmp_path / "made/caltech101/caltech101", tmp_path / "packed"
    shutil.make_archive(str(packed / "caltech-101/101_ObjectCategories"), "gztar", made, "101_ObjectCategories")
    archive = Path(shutil.make_archive(str(tmp_path / "source/caltech-101"), "zip", packed))
    monkeypatch.setattr(Caltech101, "archives", (Archive(f"http://x/{archive.name}", None, "caltech101"),))
    prepare("caltech101", root=str(tmp_path / "data"), source=str(tmp_path / "source"))
    assert len(Caltech101(root=str(tmp_path / "data")).read("test")) == 20
    assert [path.name for path in (tmp_path / "data/caltech101/caltech101").iterdir()] == ["101_ObjectCategories"]


def test_a_download_without_network_says_what_to_fetch_and_where_to_put_it(tmp_path, monkeypatch):
    def offline(*args: object) -> None:
        raise urllib.error.URLError("no network")

    monkeypatch.setattr(preparing, "download_url", offline)
    with pytest.raises(UserError) as error:
        prepare("flowers102", root=str(tmp_path / "data"))
    sentence = str(error.value)
    assert "102flowers.tgz could not be downloaded (no network)" in sentence
    assert "setid.mat into a folder of your own" in sentence
    assert "--source FOLDER" in sentence
    assert "\n" not in sentence
    assert visible(tmp_path / "data") == []


def test_an_interrupted_download_resumes_at_the_interrupted_archive(tmp_path, monkeypatch):
    fake_data.flowers102(tmp_path / "made", monkeypatch)
    made = tmp_path / "made/flowers102/flowers-102"
    shutil.make_archive(str(made / "102flowers"), "gztar", made, "jpg")
    (made / "102flowers.tar.gz").rename(made / "102flowers.tgz")
    names = ("imagelabels.mat", "setid.mat", "102flowers.tgz")
    archives = tuple(Archive(f"http://x/{name}", fake_data.md5(made / name), "flowers-102") for name in names)
    monkeypatch.setattr(Flowers102, "archives", archives)
    fetched: list[str] = []

    def fetch(url: str, folder: str, filename: str, md5: str) -> None:
        fetched.append(url)
        Path(folder).mkdir(parents=True, exist_ok=True)
        if len(fetched) == 2:
            (Path(folder) / filename).write_bytes(b"half")
            raise KeyboardInterrupt
        shutil.copy(made / url.rsplit("/", 1)[1], Path(folder) / filename)

    monkeypatch.setattr(preparing, "download_url", fetch)
    root = tmp_path / "data"
    with pytest.raises(KeyboardInterrupt):
        prepare("flowers102", root=str(root))
    assert not (root / "flowers102").exists()
    prepare("flowers102", root=str(root))
    assert [url.rsplit("/", 1)[1] for url in fetched] == [names[0], names[1], *names[1:]]
    assert len(Flowers102(root=str(root)).read("test")) == 9


@pytest.mark.parametrize(
    ("name", "options", "sentence"),
    [
        ("imagenet", {}, r"ImageNet may only be downloaded by registered users .*imagenet/val/<wnid>"),
        ("fer2013", {}, r"place it at .*fer2013/fer2013/fer2013\.csv"),
        ("stanford_cars", {}, r"cars_test_annos_withlabels\.mat into .*stanford_cars/stanford_cars"),
        ("cifra10", {}, "cifar10"),
        ("dtd", {"source": "empty"}, r"holds no known files of dtd; expected .* or dtd-r1\.0\.1\.tar\.gz"),
        ("dtd", {"source": "absent"}, "is not a folder"),
        ("pocket_digits", {"shards": True}, "or is stored in shards already; leave it out"),
    ],
)
def test_what_cannot_be_prepared_is_explained_and_nothing_is_written(tmp_path, monkeypatch, name, options, sentence):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    with pytest.raises(UserError, match=sentence):
        prepare(name, root="data", **options)
    assert visible(tmp_path / "data") == []


def test_a_folder_that_holds_something_else_is_not_touched(tmp_path):
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "thesis.tex").write_text("mine")
    with pytest.raises(UserError, match="exists but does not contain cifar10; move it away"):
        prepare("cifar10", root=str(tmp_path))
    assert (tmp_path / "cifar10" / "thesis.tex").read_text() == "mine"


def test_text_sets_are_listed_and_linked(text_root, tmp_path):
    done = lgx("data", "prepare", "rte", "--root", tmp_path / "data", "--source", text_root / "rte")
    assert (done.code, "20 train, 5 test texts" in done.out) == (0, True), done.err
    assert (tmp_path / "data/rte").is_symlink()
    listed = {row["name"]: row for row in json.loads(lgx("data", "list", "--root", tmp_path / "data", "--json").out)}
    assert [listed[name]["present"] for name in ("rte", "cola")] == [True, False]


@pytest.mark.parametrize(("name", "file"), [("sst2", "train.tsv"), ("imdb_subset", "train.jsonl")])
def test_a_source_that_lacks_the_files_of_a_text_set_is_named(tmp_path, name, file):
    wrong = tmp_path / "wrong"
    given = ["data", "prepare", name, "--root", tmp_path / "data", "--source", wrong]
    assert f"--source: {wrong} does not exist" in refusal(lgx(*given))
    wrong.mkdir()
    assert f"--source: {wrong / file} does not exist; " in refusal(lgx(*given))
    assert not (tmp_path / "data" / name).exists()
