"""Images of a user: splits by group, and folders that are not read."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_modules import ImageFolderData, MultiLabelFolderData, UnlabeledFolderData
from data_modules.images.examples import files_of
from data_modules.splits import split_by_group
from lgx.errors import UserError
from tests.support.fake_data import save

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


@pytest.fixture
def patients(tmp_path: Path) -> Path:
    """Images of patients 0 to 11 in both classes, and test images."""
    root = tmp_path / "photos"
    for n in range(48):
        save(root / "train" / ("healthy", "ill")[n // 24] / f"p{n % 12}_{n}.png", n)
    for n, name in enumerate(("healthy/p11_60", "ill/p11_60", "healthy/p20_61", "ill/p20_61"), start=60):
        save(root / f"test/{name}.png", n)
    files = [(path, path.relative_to(root).as_posix()) for path in root.rglob("*.png")]
    rows = [f"{name},{path.parent.name},{name.split('/')[0]}" for path, name in files]
    (root / "labels.csv").write_text("\n".join(["file,labels,split", *rows]))
    return root


@pytest.mark.parametrize("kind", [ImageFolderData, UnlabeledFolderData, MultiLabelFolderData])
def test_a_patient_is_in_one_split(patients: Path, kind: type) -> None:
    def split(**options: Any) -> list[set[str]]:
        made = kind(root=str(patients), **{"val_fraction": 0.25, "groups": PATTERN} | options)
        return [{Path(name).name.split("_")[0] for name in files_of(made.read(s))} for s in ("train", "val")]

    (train, val), (_, other) = split(), split(split_seed=1)
    assert (len(train), len(val)) == (9, 3)
    assert not train & val
    assert val != other
    assert set.intersection(*split(groups=None))
    assert len(split(val_fraction=0)[0]) == 12


@pytest.mark.parametrize(
    ("groups", "words"),
    [
        ("p[0-9]+_", r"data\.groups: expected .* one part in parentheses"),
        ("(p", "one part in parentheses"),
        ("(p1)_", r"data\.groups: 44 of 48 images have no group by '\(p1\)_', first .*\.png"),
        ("(healthy|ill)", r"none of 2 groups can be held out, .* give smaller groups"),
    ],
)
def test_wrong_groups_are_refused_in_one_sentence(patients: Path, groups: str, words: str) -> None:
    with pytest.raises(UserError, match=words) as refused:
        ImageFolderData(root=str(patients), groups=groups).read("train")
    assert "\n" not in str(refused.value)
