"""EuroSAT, in the layout of its archive."""

import shutil
from pathlib import Path

from data_modules import EuroSAT
from data_modules.sets.official import Archive
from lgx.commands.data import prepare
from tests.support.fake_data import class_tree, md5
from tests.support.image_sets import check_splits


def test_a_fixed_fifth_of_each_class_is_test(tmp_path: Path) -> None:
    class_tree(tmp_path / "eurosat/eurosat/2750", list(EuroSAT.info.class_names), 10, suffix="jpg")
    module = EuroSAT(root=str(tmp_path), val_fraction=0.25, batch_size=4)
    check_splits(module)
    assert [len(module.read(split)) for split in ("train", "val", "test")] == [60, 20, 20]
    test, other = module.read("test"), EuroSAT(root=str(tmp_path), split_seed=1).read("test")
    assert sorted(test.labels) == sorted([*range(10)] * 2)
    assert [test[i][0].tobytes() for i in range(20)] == [other[i][0].tobytes() for i in range(20)]


def test_the_archive_is_unpacked(tmp_path, monkeypatch, capsys):
    class_tree(tmp_path / "made/2750", list(EuroSAT.info.class_names), 10, suffix="jpg")
    archive = Path(shutil.make_archive(str(tmp_path / "EuroSAT"), "zip", tmp_path / "made"))
    monkeypatch.setattr(EuroSAT, "archives", (Archive(EuroSAT.archives[0].url, md5(archive), "eurosat"),))
    prepare("eurosat", root=str(tmp_path / "data"), source=str(tmp_path))
    assert "eurosat: 72 train, 8 val, 20 test images" in capsys.readouterr().out
    assert not (tmp_path / "data/eurosat/eurosat/EuroSAT.zip").exists()
