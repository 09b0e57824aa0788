"""Which loggers a run has, where they write, and mistakes in their options."""

import csv

import pytest
import yaml
from lightning.pytorch import LightningModule
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from lgx.core.rows import read_rows
from lgx.training.run_folder import files_of_run
from tests.support.command_line import arguments, lgx, ok, refusal

CSV = ["--trainer.logger=CSVLogger", "--trainer.log_every_n_steps=1"]


def rows(run):
    with (run / "metrics.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def steps(run, name):
    return [int(row["step"]) for row in rows(run) if row.get(name)]


def test_a_run_logs_to_tensorboard_alone_by_default(fit, tmp_path):
    mine = ["--trainer.logger=TensorBoardLogger", "--trainer.logger.filename_suffix=.mine"]
    for name, options in (("a", []), ("b", ["--trainer.logger=true"]), ("c", mine)):
        assert fit("Ancestor", f"--name={name}", *options).code == 0
        run = tmp_path / f"runs/test/{name}/seed0"
        assert len(list(run.glob("events.out.tfevents.*"))) == 1
        assert not (run / "metrics.csv").exists()
    assert list(run.glob("*.mine"))


@pytest.mark.parametrize(
    ("options", "logged"),
    [
        ([], [1, 2, 3, 5]),  # every second step, and the last ones of the epoch and of the run
        (["--trainer.callbacks+=tests.support.probes.SlowSteps"], [0, 1, 2, 3, 4, 5]),
        (["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=train/loss"], [0, 1, 2, 3, 4, 5]),
    ],
)
def test_losses_are_logged_in_the_steps_in_which_something_may_read_them(fit, monkeypatch, options, logged):
    """A callback of the user may read any step, and a progress bar shows each."""
    steps, log = [], LightningModule.log

    def noted(self, name, *values, **more):
        steps.extend([self.trainer.global_step] if name == "train/loss" else [])
        log(self, name, *values, **more)

    monkeypatch.setattr(LightningModule, "log", noted)
    monkeypatch.setenv("LGX_TEST_STEP_SECONDS", "0")
    every = ["--trainer.log_every_n_steps=2", "--trainer.max_epochs=2", "--trainer.max_steps=6"]
    ok(fit("Ancestor", "--name=a", *every, *options))
    assert steps == logged


def test_a_run_without_a_logger_leaves_everything_else(fit, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ok(fit("Ancestor", "--name=n", "--trainer.logger=false", "--test_end=true"))
    run = tmp_path / "runs/test/n/seed0"
    assert {path.name for path in run.iterdir()} == {
        "final.learngene.safetensors", "checkpoints", "config.yaml", "confusion.svg", "report.html",
        "results.csv", "summary.json", "test_classes.csv",
    }  # fmt: skip
    assert {row.split for row in read_rows(run / "results.csv")} == {"train", "val", "test"}
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    ok(lgx("test", "--config", run / "config.yaml", "--ckpt_path=best"))


def test_metrics_go_into_a_table_and_each_start_has_its_own(fit, tmp_path):
    run = tmp_path / "runs/test/c/seed0"
    assert fit("Ancestor", "--name=c", *CSV, "--test_start=true").code == 0
    table = run / "lightning_logs/version_0"
    found = [steps(table, name) for name in ("train/loss", "val/acc", "test/acc", "hp_metric")]
    assert found == [[0, 1, 2], [2], [0], [3]]
    hparams = yaml.safe_load((table / "hparams.yaml").read_text())
    assert (hparams["model.optimizer.lr"], hparams["trainer.max_epochs"], hparams["name"]) == (0.003, 1, "c")
    before = rows(table)
    assert lgx("test", "--config", run / "config.yaml", "--ckpt_path=last").code == 0
    ok(fit("Ancestor", "--name=c", *CSV, "--test_start=true", "--trainer.max_epochs=2", "--ckpt_path=last"))
    assert rows(table) == before
    assert steps(run / "lightning_logs/version_2", "train/loss") == [3, 4, 5]


def test_a_logger_writes_where_the_user_says(fit, tmp_path):
    options = ["--trainer.logger.save_dir", tmp_path / "logs", "--trainer.logger.version=mine"]
    assert fit("Ancestor", "--name=a", *CSV, *options).code == 0
    assert (tmp_path / "logs/lightning_logs/mine/metrics.csv").is_file()
    assert not list((tmp_path / "runs").rglob("metrics.csv"))


def test_the_saved_configuration_names_the_loggers_and_no_folder(fit, tmp_path):
    assert fit("Ancestor", "--name=a", "--trainer.logger=[CSVLogger,TensorBoardLogger]").code == 0
    config = tmp_path / "runs/test/a/seed0/config.yaml"
    loggers = yaml.safe_load(config.read_text())["trainer"]["logger"]
    assert [logger["class_path"].rpartition(".")[2] for logger in loggers] == ["CSVLogger", "TensorBoardLogger"]
    assert [logger["init_args"]["save_dir"] for logger in loggers] == ["", ""]
    ok(lgx("fit", "--config", config, "--name=b", "--seed_everything=2"))
    again = tmp_path / "runs/test/b/seed2"
    assert rows(again / "lightning_logs/version_0")
    assert len(list(again.glob("events.out.tfevents.*"))) == 1
    assert len(files_of_run(again)) == sum(not path.is_dir() or path.is_symlink() for path in again.rglob("*"))


@pytest.mark.slow
def test_a_resumed_run_continues_in_tensorboard_and_in_the_named_runs_of_wandb_and_mlflow(fit, tmp_path, monkeypatch):
    wandb, mlflow = (
        pytest.importorskip(name, reason="needs pip install 'lgx[loggers]'") for name in ("wandb", "mlflow")
    )
    uri = f"sqlite:///{tmp_path}/mlflow.db"
    for name, value in {
        "MLFLOW_DISABLE_TELEMETRY": "true",
        "MLFLOW_TRACKING_URI": uri,
        "WANDB_MODE": "offline",
    }.items():
        monkeypatch.setenv(name, value)  # both libraries change their variables
    client = mlflow.MlflowClient(uri)
    number = client.create_run(client.create_experiment("mine")).info.run_id
    loggers = [
        {"class_path": "TensorBoardLogger"},
        {"class_path": "WandbLogger", "init_args": {"offline": True, "id": "mine"}},
        {"class_path": "MLFlowLogger", "init_args": {"tracking_uri": uri, "run_id": number}},
    ]
    (tmp_path / "loggers.yaml").write_text(yaml.safe_dump({"trainer": {"logger": loggers, "log_every_n_steps": 1}}))
    for more in (["--trainer.max_epochs=1"], ["--trainer.max_epochs=2", "--ckpt_path=last"]):
        ok(fit("Ancestor", "--name=a", f"--config={tmp_path / 'loggers.yaml'}", *more))
        wandb.finish()
    wandb.teardown()
    run = tmp_path / "runs/test/a/seed0"
    assert len(list((run / "wandb").glob("offline-run-*-mine/run-mine.wandb"))) == 2
    assert [point.step for point in client.get_metric_history(number, "train/loss")] == [0, 1, 2, 3, 4, 5]
    assert client.get_run(number).data.params["trainer.max_epochs"] == "1"  # MLflow refuses to change it
    assert [point.step for point in EventAccumulator(str(run)).Reload().Scalars("train/loss")] == [0, 1, 2, 3, 4, 5]
    assert len(files_of_run(run)) == sum(not path.is_dir() or path.is_symlink() for path in run.rglob("*"))


def test_wandb_without_an_account_names_what_to_do(images, tmp_path, monkeypatch):
    pytest.importorskip("wandb")
    monkeypatch.setenv("WANDB_CONFIG_DIR", str(tmp_path / "none"))
    monkeypatch.setenv("NETRC", str(tmp_path / "none"))
    for name in ("WANDB_API_KEY", "WANDB_MODE"):
        monkeypatch.delenv(name, raising=False)
    sentence = refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--trainer.logger=WandbLogger")))
    assert sentence.startswith("lgx fit: wandb: cannot log (")


def test_mlflow_without_a_database_names_what_to_do_before_the_run_begins(images, tmp_path, monkeypatch):
    pytest.importorskip("mlflow")
    for name in ("MLFLOW_TRACKING_URI", "MLFLOW_ALLOW_FILE_STORE"):
        monkeypatch.delenv(name, raising=False)
    sentence = refusal(lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", "--trainer.logger=MLFlowLogger")))
    assert "MLFlowLogger refuses (MlflowException: " in sentence
    assert "sqlite:///" in sentence
    assert not (tmp_path / "runs").exists()
