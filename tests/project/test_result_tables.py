"""Tables of methods and tasks in experiments/README.md, recomputed from the committed rows."""

import re
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean

import pytest

from lgx.core.rows import Row, read_rows
from lgx.results.reproduction import load_recipes
from lgx.results.statistics import paired_difference, summarize
from tests.project.test_measured_tables import EXPERIMENTS

Chosen = Callable[[Row], bool]
Column = tuple[str, Chosen]
Line = tuple[str, list[str]]

TEXT = (EXPERIMENTS / "README.md").read_text()
DECATHLON = {
    "CIFAR-10": "mini_cifar10", "GTSRB": "mini_gtsrb", "DTD": "mini_dtd10", "Flowers": "mini_flowers12",
    "Omniglot": "mini_omniglot", "Tiny-ImageNet": "mini_tiny_imagenet", "digits": "mini_digits",
}  # fmt: skip


def rows(*names: str) -> list[Row]:
    """Test rows of committed files: accuracy, CoLA's Matthews correlation."""
    found = [row for name in names for row in read_rows(EXPERIMENTS / "results" / f"{name}.csv")]
    return [row for row in found if row.split == "test" and row.metric == ("mcc" if row.task == "cola" else "acc")]


def means(own: list[Row], method: str, column: Chosen) -> dict[int, float]:
    """Seed -> mean over the rows of a method in a column, in percent."""
    chosen = [row for row in own if row.method == method and column(row)]
    return {
        seed: 100 * fmean(row.value for row in chosen if row.seed == seed) for seed in sorted({r.seed for r in chosen})
    }


def tables(section: str) -> Iterator[tuple[list[str], list[Line]]]:
    """Heading and lines of each table of a section, without bold."""
    body = re.split(r"\n##+ ", TEXT.split(f"# {section}\n", 1)[1])[0].replace("**", "")
    for block in re.findall(r"(?:^\|.*\|\n)+", body + "\n", re.MULTILINE):
        head, _, *lines = ([cell.strip() for cell in line[1:-1].split(" | ")] for line in block.splitlines())
        yield head, [(line[0].split()[0], line[1:]) for line in lines]


def spread(values: dict[int, float], digits: int = 1, count: bool = False) -> str:
    summary = summarize(list(values.values()))
    return f"{summary.mean:.{digits}f} ± {summary.half_width:.{digits}f}{f' ({summary.n})' * count}"


def expect(place: object, cell: str, value: str) -> None:
    assert cell == value, place


def check(
    own: list[Row], lines: Sequence[Line], columns: Sequence[Chosen], digits: int = 1, count: bool = False
) -> None:
    """Compare each cell of a table with the mean and interval of its rows."""
    assert lines
    for method, cells in lines:
        for cell, column in zip(cells, columns, strict=True):
            values = means(own, method, column)
            expect((method, cell), cell, spread(values, digits, count) if values else "–")


def of(task: str = "", arch: str = "", epochs: Callable[[int], bool] = lambda _: True) -> Chosen:
    """Rows of a task, of architectures with these parts of a specification, after some epochs."""
    parts = arch.split()
    return lambda row: (
        task in ("", row.task)
        and all(f"{part}," in f"{row.architecture}," for part in parts)
        and row.epochs is not None
        and epochs(row.epochs)
    )


def untrained(epochs: int) -> bool:
    return epochs == 0


def trained(epochs: int) -> bool:
    return epochs > 0


def test_sws_on_fashion_mnist() -> None:
    own = rows("sws_fashion_mnist")
    seen = 0
    for number, (head, lines) in enumerate(tables("SWS on Fashion-MNIST")):
        columns = [of(arch=arch, epochs=(untrained, trained)[number % 2]) for arch in head[1:]]
        if number < 2:
            check(own, lines, columns, digits=2, count=True)
            seen += 1
            continue
        for method, cells in lines:  # paired differences
            for cell, column in zip(cells, columns, strict=True):
                found = paired_difference(means(own, method, column), means(own, "sws", column))
                if found is None:
                    expect((method, cell), cell, "–")
                    continue
                mark = r"\*" if found.claimable else ""
                summary = found.summary
                lead = f"{summary.mean:+.2f} ± {summary.half_width:.2f} ({summary.n}){mark}"
                expect((method, cell), cell, lead)
        seen += 1
    assert seen == 4


@pytest.mark.parametrize(
    ("section", "file"),
    [
        ("GHN-3 and LoGAH on CIFAR-10", "ghn_cifar10"),
        ("GHN-3 and LoGAH on the pocket pretraining set", "ghn_pocket"),
    ],
)
def test_hypernetworks_on_one_set(section: str, file: str) -> None:
    head, lines = next(tables(section))
    sizes = [re.fullmatch(r"(\d) layers, (\d+)", cell) for cell in head[1:]]
    check(rows(file), lines, [of(arch=f"depth={s[1]} embed_dim={s[2]}") for s in sizes if s], digits=2, count=True)


def test_tal_on_the_mini_decathlon() -> None:
    own, untrained_only = rows("tal_mini", "tal_mini_baselines", "tal_mini_plus"), of(epochs=untrained)
    (head, lines), (_, unseen), *_ = tables("TAL on the mini-Decathlon")
    names = [DECATHLON[cell] for cell in head[1:-1]]
    for method, cells in lines:
        by_task = [means(own, method, of(name, epochs=untrained)) for name in names]
        whole = means(own, method, lambda row: row.task in names and untrained_only(row))
        expected = [*(f"{fmean(values.values()):.1f}" for values in by_task), spread(whole)]
        for cell, value in zip(cells, expected, strict=True):
            expect((method, cell), cell, value)
    for task, cells in unseen:
        name = {"Fashion-MNIST": "mini_fashion_mnist", "FER2013": "mini_fer2013"}[task]
        ends = [means(own, method, of(name, epochs=trained)) for method in ("random", "logah_aligned", "tal")]
        for cell, values in zip(cells, ends, strict=False):  # the lead behind them: test_sentences_tal.py
            expect((task, cell), cell, spread(values))


def test_trained_descendants_of_tal() -> None:
    own = rows("tal_mini_trained")
    head, lines = next(tables("Trained descendants, one task alone, GHN-3 with task information"))
    assert lines
    for method, cells in lines:
        for cell, title in zip(cells, head[1:], strict=True):
            size = "depth=4 embed_dim=96"
            before, after = (means(own, method, of(DECATHLON[title], size, e)) for e in (untrained, trained))
            expect((method, title), cell, f"{fmean(before.values()):.1f} → {spread(after)}" if after else "–")


def test_layouts_of_tal_and_logah() -> None:
    _, (head, lines) = tables("Layout, learning rate and steps of TAL and LoGAH")
    assert [method for method, _ in lines] == ["logah_official", "tal_official", "logah_aligned", "tal_aligned"]
    columns = [of(DECATHLON[cell], epochs=untrained) for cell in head[1:-1]]
    check(rows("tal_layout"), lines, [*columns, lambda row: any(column(row) for column in columns)])


def descendants(head: Sequence[str]) -> list[Chosen]:
    """Columns ``GTSRB, 5 layers``, ``7``, ``9``, ``Flowers, 5 layers``, ..., and the mean of all."""
    columns, task = [], ""
    for cell in head[1:-1]:
        name, _, depth = cell.rpartition(", ")
        task = DECATHLON[name] if name else task
        columns.append(of(task, f"depth={depth.removesuffix(' layers')}", trained))
    return [*columns, lambda row: any(column(row) for column in columns)]


def test_lsamd_on_the_mini_decathlon() -> None:
    own = rows("lsamd_mini")
    (head, lines), (other, routed), *_ = tables("LSAMD on the mini-Decathlon")
    check(own, lines, descendants(head))
    for routing, cells in routed:
        method = {"batch": "lsamd", "image": "lsamd_image"}[routing]
        check(own, [(method, cells)], [of(DECATHLON[cell], "depth=12") for cell in other[1:]])


def test_sws_on_the_mini_decathlon() -> None:
    own = rows("sws_mini")
    (_, nets), (_, further), (head, lines) = tables("SWS on the mini-Decathlon")
    on_cifar = of("mini_cifar10")
    check(own, nets, [lambda row: on_cifar(row) and row.seed <= 2])
    check(own, further, [lambda row: on_cifar(row) and row.seed > 2], count=True)
    check([*own, *rows("lsamd_mini")], lines, descendants(head))


def test_gpt2_on_four_tasks() -> None:
    own = rows("text_mini")
    found = list(tables("GPT-2 on four language tasks"))
    assert len(found) == 4
    for task, (head, lines) in zip(("imdb_subset", "mrpc", "cola", "rte"), found, strict=True):
        check(own, lines, [of(task, f"depth={cell.removesuffix(' layers')}") for cell in head[1:]])


def test_rows_of_a_table_have_one_value_for_each_measurement() -> None:
    for recipe in load_recipes().values():
        for how in recipe.scales.values():
            found: dict[tuple[object, ...], Row] = {}
            for row in (row for file in how.measured for row in read_rows(EXPERIMENTS.parent / file)):
                other = found.setdefault(row.key[:-1], row)
                assert row.value == pytest.approx(other.value, rel=1e-4, nan_ok=True), (recipe.name, row.run, other.run)
