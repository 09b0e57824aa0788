"""Images of a user: splits by group, images that are in two splits, and folders that are not read."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_modules import ImageFolderData, MultiLabelFolderData, UnlabeledFolderData
from data_modules.images import files_of
from data_modules.splits import split_by_group
from lgx.errors import UserError
from tests.support.command_line import arguments, lgx
from tests.support.fake_data import save
from tests.support.label_tables import write_labeled

PATTERN = "(p[0-9]+)_"


@given(
    examples=st.lists(st.tuples(st.integers(0, 3), st.sampled_from("abcdefghij")), min_size=1, max_size=60),
    fraction=st.sampled_from([0, 0.1, 0.3]),
    data=st.data(),
)
def test_no_group_is_split_and_each_class_keeps_an_example(examples, fraction, data) -> None:
    labels, groups = zip(*examples, strict=True)
    kept, held = split_by_group(labels, groups, fraction, 3)
    assert sorted([*kept, *held]) == list(range(len(examples)))
    assert not {groups[i] for i in kept} & {groups[i] for i in held}
    assert {labels[i] for i in kept} == set(labels)
    assert fraction or not len(held)
    order = data.draw(st.permutations(range(len(examples))))
    again = split_by_group([labels[i] for i in order], [groups[i] for i in order], fraction, 3)[1]
    assert sorted(order[i] for i in again) == held.tolist()


@pytest.mark.parametrize("classes", [1, 2, 7])
def test_groups_are_drawn_by_seed_and_as_evenly_as_they_allow(classes: int) -> None:
    rng = np.random.default_rng(0)
    groups = np.repeat([f"p{k}" for k in range(300)], rng.integers(1, 6, 300))
    labels = rng.integers(0, classes, len(groups))
    draws = {tuple(split_by_group(labels, groups, 0.2, seed)[1].tolist()) for seed in range(3)}
    assert len(draws) == 3
    for held in draws:
        shares = np.bincount(labels[list(held)], minlength=classes) / np.bincount(labels)
        assert abs(len(held) / len(groups) - 0.2) < 0.03
        assert abs(shares - 0.2).max() < 0.06


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Images of patients 0 to 11 in both classes; patient 11 is in the test, too, with one image of ``train``."""
    for n in range(48):
        save(tmp_path / "photos/train" / ("healthy", "ill")[n // 24] / f"p{n % 12}_{n}.png", n)
    for n, patient in ((60, 11), (61, 20)):
        for label in ("healthy", "ill"):
            save(tmp_path / f"photos/test/{label}/p{patient}_{n}.png", n + 10 * (label == "ill"))
    copied = tmp_path / "photos/train/ill/p5_29.png"
    (tmp_path / "photos/test/ill/q_1.png").write_bytes(copied.read_bytes())
    return tmp_path / "photos"


def with_table(root: Path) -> str:
    lines = [f"{path.relative_to(root).as_posix()},{path.name.split('_')[0]}" for path in root.rglob("*.png")]
    (root / "groups.csv").write_text("\n".join(["file,group", *lines, "./train/ill/p5_29.png,p5", ""]))
    return "groups.csv"


def patients_of(module: Any, split: Any) -> set[str]:
    return {Path(name).name.split("_")[0] for name in files_of(module.read(split))}


@pytest.mark.parametrize("table", [False, True])
@pytest.mark.parametrize("kind", [ImageFolderData, UnlabeledFolderData])
def test_a_patient_is_in_one_split(patients: Path, kind: type, table: bool) -> None:
    groups = with_table(patients) if table else PATTERN
    draws = []
    for seed in (0, 1):
        made = kind(root=str(patients), groups=groups, val_fraction=0.25, split_seed=seed)
        train, val = patients_of(made, "train"), patients_of(made, "val")
        assert len(train | val) == 12
        assert not train & val
        assert len(val) == 3
        draws.append(val)
    assert draws[0] != draws[1]
    plain = kind(root=str(patients), val_fraction=0.25)
    assert patients_of(plain, "train") & patients_of(plain, "val")
    assert len(kind(root=str(patients), groups=groups, val_fraction=0).read("train")) == 48


def test_a_group_of_a_label_table_is_in_one_split(tmp_path: Path) -> None:
    root = write_labeled(tmp_path / "shapes")
    made = MultiLabelFolderData(root=str(root), groups=r"images/(\d\d)", val_fraction=0.25)
    train, val = ({name[:9] for name in files_of(made.read(split))} for split in ("train", "val"))
    assert train
    assert val
    assert not train & val


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("p[0-9]+_", r"data\.groups: expected .* one part in parentheses"),
        ("(p)([0-9]+)", r"one part in parentheses .* got '\(p\)"),
        ("(p", r"one part in parentheses .*unterminated"),
        ("(p1)_", r"data\.groups: 44 of 48 images have no group by '\(p1\)_', first .*\.png"),
        ("(x)?p", r"48 of 48 images have no group"),
        ("(healthy|ill)", r"none of 2 groups can be held out .* raise data\.val_fraction"),
        ("no.csv", r"no\.csv: No such file"),
        ("file,patient\na,b\n", r"line 1: the header is 'file,patient'; expected file,group"),
        ("file,group,group\na,b,c\n", r"line 1: the column 'group' occurs twice"),
        ("file,group\na,b\na,c\n", r"line 3: 'a' is in two groups"),
        ("file,group\ntrain/ill/p5_29.png,p5\n", r"47 of 48 images have no group by 'groups\.csv'"),
    ],
)
def test_wrong_groups_are_refused_in_one_sentence(patients: Path, groups: str, words: str) -> None:
    if "\n" in groups:
        (patients / "groups.csv").write_text(groups)
        groups = "groups.csv"
    with pytest.raises(UserError, match=words) as refused:
        ImageFolderData(root=str(patients), groups=groups).read("train")
    assert "\n" not in str(refused.value)


def test_a_run_names_shared_groups_copies_and_folders_that_are_not_read(patients, tmp_path, caplog) -> None:
    save(patients / "dev/ill/1.png", 1)
    (patients / ".cache").mkdir()
    options = [f"--data.groups={PATTERN}", "--data.val_fraction=0.25", "--trainer.limit_train_batches=1"]
    with caplog.at_level("INFO"):
        result = lgx(*arguments("fit", "Ancestor", patients, tmp_path / "runs", *options))
    assert result.code == 0, result.err
    told = [record.getMessage() for record in caplog.records if str(record.getMessage()).startswith(("data", "/"))]
    (shared,) = [line for line in told if line.startswith("data.groups: ")]
    assert shared.startswith("data.groups: 1 groups of test are in ")
    assert shared.endswith("'p11'")
    (copies,) = [line for line in told if line.startswith("data: 1 files have the content of one in another split")]
    assert "p5_29.png and" in copies
    assert copies.endswith("q_1.png")
    (ignored,) = [line for line in told if "are ignored" in line]
    assert ignored.startswith(f"{patients}: 'dev' beside train are ignored; train, val")
