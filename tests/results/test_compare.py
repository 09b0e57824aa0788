"""``lgx compare``: from runs on disk to tables and one self-contained page."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lgx import compare as lgx_compare
from lgx.commands.compare import compare
from lgx.core.rows import write_rows
from lgx.errors import UserError
from tests.results.helpers import GAINS, row
from tests.support.command_line import arguments, lgx, refusal
from tests.support.images import write_images


def write_tested(folder: Path, method: str, counts: dict[str, int], metrics: dict[str, float]) -> None:
    folder.mkdir(parents=True)
    n = sum(counts.values())
    write_rows(
        folder / "results.csv", [row(method, value=v, metric=m, n=n, run=str(folder)) for m, v in metrics.items()]
    )
    lines = ["class,precision,recall,f1,examples", *(f"{name},0.5,0.5,0.5,{count}" for name, count in counts.items())]
    (folder / "test_classes.csv").write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize(
    ("counts", "is_uneven"), [({"normal": 234, "pneumonia": 390}, True), ({"normal": 300, "pneumonia": 324}, False)]
)
def test_uneven_classes_are_judged_on_balanced_accuracy(counts, is_uneven, tmp_path, capsys):
    one_answer = {"acc": counts["pneumonia"] / sum(counts.values()), "balanced_acc": 0.5}
    write_tested(tmp_path / "runs/one", "sws", counts, one_answer)
    write_tested(tmp_path / "runs/two", "random", counts, {"acc": 0.6, "balanced_acc": 0.58})
    compare([str(tmp_path / "runs")])
    printed = " ".join(capsys.readouterr().out.split())
    assert ("largest class pneumonia 62.5 %" in printed) == ("58.0" in printed) == is_uneven
    compare([str(tmp_path / "runs")], metric="acc")
    assert "largest class pneumonia" not in capsys.readouterr().out
    write_tested(tmp_path / "runs/three", "tleg", counts, {"acc": 0.6})
    compare([str(tmp_path / "runs")])
    assert ("test them again" in " ".join(capsys.readouterr().out.split())) == is_uneven


def test_compare_prints_tables_and_writes_a_page(runs, tmp_path, capsys):
    out = tmp_path / "out"
    compare([str(runs)], out=str(out), baseline="random")
    assert [path.name for path in out.iterdir()] == ["report.html"]
    printed = capsys.readouterr().out
    markdown = lgx_compare(runs).to_markdown()
    page = (out / "report.html").read_text()
    # Depth 4, untrained: 0.1 + 0.3 * 0.4 + {0, 0.01, 0.02}: mean 23 %, sd 1, half width 4.3027 / sqrt(3) = 2.48.
    for shown in (printed, markdown, page):
        assert "23.00 ± 2.48 (3)" in shown
        assert all(method in shown for method in GAINS)
    assert "+12.00 ± 0.00 (3)" in printed
    assert page.count("<svg") == 1  # accuracy against depth
    outside = r"<(script|link|img)\b|=\"https?://|url\((?!#)"
    assert not re.search(outside, re.sub(r'xmlns(:\w+)?="[^"]*"', "", page))


def test_the_same_runs_give_the_same_page(runs, tmp_path):
    for name in ("a", "b"):
        compare([str(runs)], out=str(tmp_path / name))
    assert (tmp_path / "a/report.html").read_bytes() == (tmp_path / "b/report.html").read_bytes()


def test_a_report_of_another_program_is_replaced_with_force_only(runs, tmp_path):
    (tmp_path / "out").mkdir()
    page = tmp_path / "out/report.html"
    page.write_text("<title>Comparison of initializations</title> mine")
    with pytest.raises(UserError, match=r"report\.html: exists, and `lgx compare` did not write it; .*--force"):
        compare([str(runs)], out=str(tmp_path / "out"))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    for force in (True, False):  # without force the second time: now lgx wrote it
        compare([str(runs)], out=str(tmp_path / "out"), force=force)
    assert "mine" not in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"split": "val"}, "no acc was measured on the val split; give --split test"),
        ({"metric": "f1"}, "no f1 was measured; give --metric acc or loss"),
        ({"baseline": "tleg"}, "baseline 'tleg' was not measured; methods are random, simple_lg, sws"),
    ],
)
def test_missing_results_end_with_one_sentence(runs, arguments, message):
    with pytest.raises(UserError, match=re.escape(message)):
        compare([str(runs)], **arguments)  # type: ignore[arg-type]


def test_a_place_without_results_is_a_user_error(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    for name, words in (("", "no results.csv in"), ("none", "no such file or folder"), ("notes.txt", "not a results")):
        with pytest.raises(UserError, match=words):
            compare([str(tmp_path / name)])


def test_importing_the_command_loads_no_heavy_package():
    heavy = ("matplotlib", "scipy", "tensorboard", "rich", "torch")
    code = f"import sys, lgx.commands.compare; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_only_the_methods_asked_for_are_shown(runs, capsys):
    compare([str(runs)], methods="sws")
    printed = capsys.readouterr().out
    assert "sws" in printed
    assert "simple_lg" not in printed
    with pytest.raises(UserError, match="tleg not measured; methods are"):
        compare([str(runs)], methods="sws,tleg")


def test_two_sets_of_one_name_are_not_one_task(tmp_path):
    for place, count in (("one", 9), ("longer", 12), ("others", 9)):
        images = write_images(tmp_path / place / "shapes", {"train": 16, "val": 9, "test": count})
        for split in ("train", "val", "test") if place == "others" else ():
            (images / split / "stripe").rename(images / split / "zebra")
        options = ("--trainer.max_epochs=1", "--test_end", f"--name={place}")
        assert lgx(*arguments("fit", "Finetune", images, tmp_path / "runs", *options)).code == 0
    for other in ("longer", "others"):
        sentence = refusal(lgx("compare", tmp_path / "runs/test/one", tmp_path / "runs/test" / other))
        assert all(words in sentence for words in ("shapes", "one/seed0", f"{other}/seed0")), sentence
    few = ("--name=few", "--trainer.limit_val_batches=1", "--trainer.max_epochs=1", "--test_end")  # of validation
    assert lgx(*arguments("fit", "Finetune", tmp_path / "one/shapes", tmp_path / "runs", *few)).code == 0
    assert lgx("compare", tmp_path / "runs/test/one", tmp_path / "runs/test/few").code == 0
    assert lgx("compare", tmp_path / "runs/test/one", tmp_path / "runs/test/few", "--split=val").code == 0
