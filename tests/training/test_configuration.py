"""The parser of training commands: what it accepts, what it builds, and whose mistake an error is."""

import json
from dataclasses import dataclass

import pytest
import yaml

from lgx.errors import UserError
from lgx.methods import Finetune
from lgx.training.configuration import instantiate, make_parser, parse_configuration
from lgx.training.loggers import RunPlace
from lgx.training.run_folder import run_place
from tests.support.command_line import arguments, lgx, ok, refusal


@dataclass(frozen=True)
class More:
    """Further options.

    Attributes:
        count: How many.
        loud: Whether to shout.
    """

    count: int = 1
    loud: bool = False


def parsed(images, tmp_path, *options, extra=None, model="Finetune"):
    parser = make_parser("fit", extra)
    return parser, parse_configuration(parser, arguments("fit", model, images, tmp_path, *options)[1:])


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ([], False),
        (["--test_start"], True),
        (["--test-start"], True),
        (["--test_start", "true"], True),
        (["--test_start=True"], True),
        (["--test_start=false"], False),
        (["--test_start", "--no_test_start"], False),
        (["--test_start", "--no-test-start"], False),
    ],
)
def test_boolean_options_are_flags(images, tmp_path, words, expected):
    _, config = parsed(images, tmp_path, *words)
    assert config.test_start is expected
    assert (config.test_end, config.overwrite, config.untrained) == (False, False, False)


def test_a_configuration_file_sets_flags_too(images, tmp_path):
    (tmp_path / "flags.yaml").write_text(yaml.safe_dump({"test_end": True, "overwrite": True}))
    _, config = parsed(images, tmp_path, "--config", tmp_path / "flags.yaml", "--no_overwrite")
    assert (config.test_end, config.overwrite) == (True, False)


def test_a_flag_is_true_or_false(images, tmp_path):
    with pytest.raises(UserError, match=r"--overwrite.*maybe"):
        parsed(images, tmp_path, "--overwrite=maybe")


def test_the_fields_of_a_dataclass_are_further_options(images, tmp_path):
    _, config = parsed(images, tmp_path, "--count=3", "--loud", extra=More)
    assert (config.count, config.loud) == (3, True)
    _, config = parsed(images, tmp_path, extra=More)
    assert (config.count, config.loud) == (1, False)
    with pytest.raises(UserError, match="unknown option --loud"):
        parsed(images, tmp_path, "--loud")


def test_method_and_data_module_are_built_without_a_trainer(images, tmp_path):
    parser, config = parsed(images, tmp_path, "--seed_everything=3")
    built = instantiate(parser, config)
    assert isinstance(built.model, Finetune)
    assert built.model.architecture.num_classes == built.data.num_classes == 3
    assert (built.data.seed, run_place(config)) == (3, RunPlace(f"{tmp_path}/test", "finetune", "seed3"))
    assert not isinstance(built.trainer, type(built.model))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model.initializer=HypernetPrediction", "--model.initializer.source=x", "--model.initializer.noise=-1"],
         "noise: must not be negative, got -1.0"),
        (["--model.label=a b"], "model.label: expected letters, digits and underscores, got 'a b'"),
        (["--data.batch_size=0"], "data.batch_size: "),
        (["--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.save_top_k=-3"],
         "the configuration holds a value that ModelCheckpoint refuses (MisconfigurationException: Invalid value for "
         "save_top_k=-3. Must be >= -1)"),
        (["--trainer.callbacks+=Timer", "--trainer.callbacks.interval=never"],
         "the configuration holds a value that Timer refuses (MisconfigurationException: Unsupported parameter value "),
    ],
)  # fmt: skip
def test_the_mistake_behind_a_refused_class_is_reported(images, tmp_path, options, sentence):
    for command in ("fit", "plan"):
        words = arguments("fit", "Finetune", images, tmp_path / "runs", *options)[1:]
        result = refusal(lgx(command, *words))
        assert result.startswith(f"lgx {command}: {sentence}"), result
    assert not (tmp_path / "runs").exists()


def test_options_that_are_enumerations_are_saved_as_texts(fit, tmp_path):
    ok(fit("Ancestor", "--name=a", "--trainer.callbacks+=Timer", "--trainer.callbacks.duration=00:01:00:00"))
    (callback,) = yaml.safe_load((tmp_path / "runs/test/a/seed0/config.yaml").read_text())["trainer"]["callbacks"]
    assert callback["init_args"]["interval"] == "step"


def test_a_single_callback_needs_no_list(fit):
    ok(fit("Ancestor", "--name=a", "--trainer.callbacks=EarlyStopping", "--trainer.callbacks.monitor=val/loss"))


def test_a_value_may_name_a_file_with_configuration(images, tmp_path):
    (tmp_path / "data.yaml").write_text(f"class_path: ImageFolderData\ninit_args: {{root: {images}, img_size: 16}}\n")
    given = [word for word in arguments("fit", "Ancestor", images, tmp_path) if not word.startswith("--data")]
    assert "ImageFolderData" in ok(lgx(*given, "--data", tmp_path / "data.yaml", "--print_config")).out


def test_a_flag_of_a_command_takes_no_positional_argument(tmp_path):
    for words in (["arch", "--json", "6-Small"], ["arch", "6-Small", "--json"]):
        assert [row["name"] for row in json.loads(lgx(*words).out)] == ["6-Small"]
    assert '"name"' not in lgx("arch", "--no-json", "6-Small").out  # a table
    assert "missing: no such file or folder" in lgx("compare", "--cost", tmp_path / "missing").sentence
