"""Old spellings still work, and say what to write instead."""

import pytest
import yaml

from lgx.core.rows import read_rows
from lgx.training import migrations
from lgx.training.migrations import migrate, migrate_argv
from tests.support.command_line import arguments, lgx


@pytest.fixture(autouse=True)
def fresh():
    """Let every test report its deprecations."""
    migrations._report.cache_clear()


@pytest.mark.parametrize(
    ("old", "present"),
    [
        ("lgx.initializers.Pretrained", "lgx.methods.Pretrained"),
        ("lgx.initializers.pretrained.Pretrained", "lgx.methods.Pretrained"),
        ("lgx.initializers.VanillaLG", "lgx.methods.VanillaLG"),
        ("lgx.initializers.SearchedExpansion", "lgx.methods.SelectedExpansion"),
        ("lgx.initializers.searched.SearchedExpansion", "lgx.methods.SelectedExpansion"),
        ("lgx.methods.tal.TAL", "lgx.methods.TAL"),
        ("lgx.methods.sws.SWS", "lgx.methods.SWS"),
        ("lgx.methods.ghn.GHN3", "lgx.methods.GHN3"),
        ("lgx.optim.Poly", "lgx.components.optim.Poly"),
        ("lgx.callbacks.SaveResults", "lgx.training.callbacks.SaveResults"),
        ("lgx.callbacks.results.SaveResults", "lgx.training.callbacks.SaveResults"),
        ("lgx.callbacks.DrawRouting", "lgx.training.callbacks.DrawFigures"),
        ("lgx.callbacks.task_map.DrawTaskMap", "lgx.training.callbacks.DrawFigures"),
    ],
)
def test_class_paths_move_wherever_they_stand(old, present, capsys):
    named = {"model": {"class_path": old, "init_args": {"x": [old, 1, None]}}}
    assert migrate(named) == {"model": {"class_path": present, "init_args": {"x": [present, 1, None]}}}
    assert migrate_argv(["fit", f"--model={old}", "--x", old, "--a+=" + old]) == [
        "fit", f"--model={present}", "--x", present, "--a+=" + present,
    ]  # fmt: skip
    assert capsys.readouterr().err == (
        f"deprecated: {old} is {present} now; the next release refuses the old spelling\n"
    )


@pytest.mark.parametrize(
    "text",
    [
        "lgx.methods.TAL", "lgx.methods.hypernetworks.tal.TAL", "lgx.components.optim.Poly", "my.lgx.optim.Poly",
        "see lgx.optim.Poly", "lgx.optim.parameter_groups", "runs/lgx.optim.Poly", "SearchedExpansion", "neighbour",
    ],
)  # fmt: skip
def test_other_texts_stay(text, capsys):
    assert migrate({"model": {"label": text}, "list": [text]}) == {"model": {"label": text}, "list": [text]}
    assert migrate_argv(["fit", "--model.label", text]) == ["fit", "--model.label", text]
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("old", "present"),
    [
        (
            {"class_path": "StagewiseExpansion", "init_args": {"learngene": "f", "seed": 1}},
            {"class_path": "StagewiseExpansion", "init_args": {"source": "f", "seed": 1}},
        ),
        (
            {"class_path": "SearchedExpansion", "init_args": {"learngene": "f", "repeat": "neighbour"}},
            {"class_path": "SelectedExpansion", "init_args": {"source": "f", "repeat": "neighbor"}},
        ),
        (
            {"class_path": "lgx.initializers.HypernetPrediction", "init_args": {"hypernet": "f"}},
            {"class_path": "lgx.methods.HypernetPrediction", "init_args": {"source": "f"}},
        ),
        ("SearchedExpansion", "SelectedExpansion"),
        ({"init_args": {"learngene": "f"}}, {"init_args": {"source": "f"}}),
        ({"hypernet": "f"}, {"source": "f"}),
        *[(same, same) for same in (
            {"class_path": "mine.Start", "init_args": {"learngene": "f"}},
            {"class_path": "Pretrained", "init_args": {"hypernet": "f"}},
            None,
        )],
    ],
)  # fmt: skip
def test_options_of_initializers_are_renamed(old, present):
    def model(initializer):
        return {"model": {"class_path": "Finetune", "init_args": {"initializer": initializer, "learngene": "own"}}}

    before = model(old)
    assert migrate(before) == model(present)
    assert before == model(old)
    if isinstance(old, dict) and "class_path" in old:
        assert migrate(old) == present


def test_options_of_sweeps_are_renamed():
    options = {
        "model.initializer": "SearchedExpansion",
        "model.initializer.learngene": "{runs}/f",
        "model.initializer.init_args.repeat": "neighbour",
        "model.ancestor": "f",
    }
    present = {
        "model.initializer": "SelectedExpansion",
        "model.initializer.source": "{runs}/f",
        "model.initializer.init_args.repeat": "neighbor",
        "model.ancestor": "f",
    }
    matrix = {"start": {"a": options, "b": {"model.initializer.hypernet": "g"}}, "depth": [4, 6]}
    sweep = {"experiment": "x", "seeds": [0], "runs": [{"name": "a", "config": "c", "matrix": matrix}]}
    migrated = migrate(sweep)["runs"][0]["matrix"]
    assert migrated == {"start": {"a": present, "b": {"model.initializer.source": "g"}}, "depth": [4, 6]}
    foreign = {"model.initializer": "mine.Start", "model.initializer.learngene": "f"}
    assert migrate(foreign) == foreign


@pytest.mark.parametrize(
    ("old", "present"),
    [
        (["--model.initializer.learngene", "f"], ["--model.initializer.source", "f"]),
        (["--model.initializer.init_args.hypernet=f"], ["--model.initializer.init_args.source=f"]),
        (
            ["--model.initializer=SearchedExpansion", "--model.initializer.learngene=f=g"],
            ["--model.initializer=SelectedExpansion", "--model.initializer.source=f=g"],
        ),
        (
            ["--model.initializer.class_path", "SearchedExpansion", "--model.initializer.repeat", "neighbour"],
            ["--model.initializer.class_path", "SelectedExpansion", "--model.initializer.repeat", "neighbor"],
        ),
        *[(same, same) for same in (
            ["--model.initializer=mine.Start", "--model.initializer.learngene=f"],
            ["--overwrite", "--model.learngene", "f", "-1", "word", "--"],
            ["--x", "-1", "--y="],
        )],
    ],
)  # fmt: skip
def test_command_lines_are_migrated(old, present):
    assert migrate_argv(["fit", *old]) == ["fit", *present]


def test_a_configuration_tells_whose_option_it_is(tmp_path):
    for name, expected in (("mine.Start", "learngene"), ("StagewiseExpansion", "source"), (None, "source")):
        initializer = {"class_path": name, "init_args": {}} if name else None
        model = {"class_path": "Finetune", "init_args": {"initializer": initializer}}
        (tmp_path / "c.yaml").write_text(yaml.safe_dump({"model": model}))
        words = ["--config", str(tmp_path / "c.yaml"), "--model.initializer.learngene=f"]
        assert migrate_argv(words)[-1] == f"--model.initializer.{expected}=f"


@pytest.mark.slow
def test_old_spellings_train_the_same_run(images, sws, tmp_path):
    source = sws / "best.learngene.safetensors"
    scheduler = ("--model.scheduler=lgx.components.optim.WarmupCosine", "--model.scheduler=lgx.optim.WarmupCosine")
    initializer = f"{{class_path: lgx.initializers.StagewiseExpansion, init_args: {{learngene: {source}}}}}"
    present = ["--model.initializer=StagewiseExpansion", f"--model.initializer.source={source}"]
    old = ["--model.initializer=lgx.initializers.StagewiseExpansion", f"--model.initializer.learngene={source}"]
    texts, losses = set(), set()
    for name, options in (("present", present), ("old", old), ("yaml", [f"--model.initializer={initializer}"])):
        words = arguments("fit", "Finetune", images, tmp_path / name, *options)
        result = lgx(*(word.replace(*scheduler) if name != "present" else word for word in words))
        assert result.code == 0, result.err
        assert ("deprecated: " in result.err) == (name == "old")  # once per process
        run = tmp_path / name / "test/finetune/seed0"
        texts.add((run / "config.yaml").read_text().replace(str(tmp_path / name), ""))
        losses.add(tuple(row.value for row in read_rows(run / "results.csv")))
    assert len(texts) == len(losses) == 1
