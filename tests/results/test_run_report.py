"""The page of a run and the files of its test, of one network and of a family."""

import csv
import re
import shutil
from html import unescape
from pathlib import Path

import pytest

from lgx.architectures import parse_architecture
from lgx.architectures.cost import cost_of
from lgx.core.rows import read_rows
from lgx.methods.nested.sizes import size_names
from lgx.training.run_folder import files_of_run
from tests.support.command_line import arguments, lgx, ok

SIZES = {"2x16": "depth=2", "1x8-mlp2": "depth=1,embed_dim=8,mlp_ratio=2", "ancestor": "ancestor"}


def train(model: str, images: Path, runs: Path, *options: str) -> tuple[Path, str]:
    """The folder of a run that tests its networks, and what it printed."""
    done = ok(lgx(*arguments("fit", model, images, runs, "--test_end=true", "--name=r", *options)))
    return runs / "test/r/seed0", done.out


@pytest.fixture(scope="module")
def family(images: Path, ancestor: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of two listed sizes."""
    sizes = ",".join(f'"{size}"' for size in SIZES.values() if size != "ancestor")
    options = [f"--model.ancestor={ancestor}", f"--model.sizes=[{sizes}]", "--trainer.max_epochs=2"]
    return train("Family", images, tmp_path_factory.mktemp("family"), *options)


def table_of(page: str) -> list[list[str]]:
    """The texts of the page's only table, which scrolls by itself."""
    (table,) = re.findall(r'<div class="scroll"[^>]*><table>(.*?)</table></div>', page, re.DOTALL)
    assert page.count("<table") == 1
    rows = re.findall(r"<tr>(.*?)</tr>", table, re.DOTALL)
    return [[unescape(cell) for cell in re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row)] for row in rows]


def counts_of(picture: str) -> list[int]:
    """The numbers in the cells of a confusion matrix, row by row."""
    return [int(text) for text in re.findall(r">(\d+)</text>", picture)]


def accuracies(folder: Path) -> dict[str, float]:
    """Accuracy of each tested architecture."""
    rows = read_rows(folder / "results.csv")
    return {row.architecture: row.value for row in rows if (row.split, row.metric) == ("test", "acc")}


def test_a_test_leaves_for_each_size_what_it_leaves_for_one_network(family: tuple[Path, str], tmp_path: Path) -> None:
    folder, out = family
    for (name, size), accuracy in zip(SIZES.items(), accuracies(folder).values(), strict=True):
        config, place = ("--config", folder / "config.yaml"), ("--name=p", f"--runs_dir={tmp_path}")
        weights = f"--ckpt_path={folder}/checkpoints/last.ckpt"
        ok(lgx("predict", *config, *place, weights, f'--model.sizes=["{size}"]'))
        with (tmp_path / "test/p/seed0/predictions.csv").open() as file:
            pairs = [(int(row["true"]), int(row["class"])) for row in csv.DictReader(file)]
        counts = [pairs.count((true, guess)) for true in range(3) for guess in range(3)]
        assert counts_of((folder / f"confusion-{name}.svg").read_text()) == counts
        assert sum(counts[::4]) / 12 == pytest.approx(accuracy)
        with (folder / f"test_classes-{name}.csv").open() as file:
            recalls = [(float(row["recall"]), int(row["examples"])) for row in csv.DictReader(file)]
        sums = [sum(counts[3 * true : 3 * true + 3]) for true in range(3)]
        assert [examples for _, examples in recalls] == sums
        shares = [right / total for right, total in zip(counts[::4], sums, strict=True)]
        assert [recall for recall, _ in recalls] == pytest.approx(shares)
        wrong = 12 - sum(counts[::4])
        of_size = out[out.index(f"\n           {name}\n") :].splitlines()[2:4]
        assert of_size[0].startswith("             lowest recall: ")
        assert of_size[1].startswith("             mistakes: ") or not wrong
    assert not [file for kind in ("test_classes.csv", "*n.svg") for file in folder.glob(kind)]


def test_every_size_has_a_name_of_its_own() -> None:
    whole = parse_architecture("depth=4,embed_dim=16,num_heads=2")
    narrow = whole.replace(embed_dim=8, num_heads=1)
    sizes = [whole, whole.replace(depth=2), narrow, narrow.replace(num_heads=2), narrow.replace(mlp_ratio=2.0625)]
    assert size_names(sizes, whole) == ["ancestor", "2x16", "4x8", "4x8-h2", "4x8-mlp2.0625"]


def test_the_page_of_a_family_has_a_line_for_each_size_and_all_pictures(family: tuple[Path, str]) -> None:
    folder, out = family
    page = (folder / "report.html").read_text()
    assert out.splitlines()[-2] == f"report     {folder}/report.html"
    assert out.splitlines()[-1].startswith("next ")
    assert "<h1>shapes: networks of 3 sizes</h1>" in page
    head, *lines = table_of(page)
    assert head[:3] == ["network", "test accuracy", "test images"]
    for line, name, (architecture, accuracy) in zip(lines, SIZES, accuracies(folder).items(), strict=True):
        cost = cost_of(parse_architecture(architecture).replace(num_classes=3))
        assert line[0] == name
        assert line[1].startswith(f"{100 * accuracy:.1f} % (")
        assert line[2] == "12"
        assert float(line[3].rstrip("k")) == pytest.approx(cost.parameters / 1e3, rel=1e-3)
        assert float(line[4]) == pytest.approx(4 * cost.parameters / 1e6, rel=1e-2)
        assert float(line[5].rstrip("kM")) == pytest.approx(cost.macs / {"k": 1e3, "M": 1e6}[line[5][-1]], rel=1e-3)
        assert float(line[6]) > 0
    assert len(files_of_run(folder)) == sum(path.is_file() for path in folder.rglob("*"))
    for picture in ("front", *(f"confusion-{name}" for name in SIZES)):
        assert f'id="{picture}-figure_1"' in page


def test_a_run_killed_while_it_writes_its_page_writes_it_when_it_is_resumed(
    images: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = arguments("fit", "Finetune", images, tmp_path, "--name=k")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("lgx.cli._write_report", killed)
        assert lgx(*given).code == 130
    page = tmp_path / "test/k/seed0/report.html"
    assert not page.exists()
    ok(lgx(*given, "--ckpt_path=last"))
    assert "validation accuracy" in page.read_text()


def test_a_test_of_one_size_keeps_the_files_of_the_others(family: tuple[Path, str], tmp_path: Path) -> None:
    former, _ = family
    folder = Path(shutil.copytree(former, tmp_path / "test/r/seed0"))
    one = f'--model.sizes=["{SIZES["2x16"]}"]'
    ok(lgx("test", "--config", folder / "config.yaml", f"--runs_dir={tmp_path}", one))
    kinds = "test_classes", "confusion"
    names = {file.stem for kind in kinds for file in folder.glob(f"{kind}*")}
    assert names == {f"{kind}-{name}" for kind in kinds for name in SIZES}
    counts, of_former = (counts_of((place / "confusion-2x16.svg").read_text()) for place in (folder, former))
    assert counts == of_former


def test_the_page_of_one_network_has_one_line_of_its_test_or_else_of_its_validation(
    images: Path, tmp_path: Path
) -> None:
    folder, _ = train("Ancestor", images, tmp_path)
    assert {"test_classes.csv", "confusion.svg"} <= {file.name for file in folder.iterdir()}
    page = (folder / "report.html").read_text()
    assert "<h1>shapes: 4x16</h1>" in page
    assert 'id="confusion-figure_1"' in page
    _, line = table_of(page)
    assert line[:3] == ["4x16", line[1], "12"]
    (accuracy,) = accuracies(folder).values()
    assert line[1].startswith(f"{100 * accuracy:.1f} % (")
    ok(lgx(*arguments("fit", "Ancestor", images, tmp_path, "--name=r", "--trainer.max_epochs=2", "--ckpt_path=last")))
    page = (folder / "report.html").read_text()
    head, line = table_of(page)
    assert head[1:3] == ["validation accuracy", "validation images"]
    assert line[2] == "9"
    assert "confusion" not in page
