"""A run with all loggers at once: each has its metrics, hyper-parameters and figures, also when it is resumed."""

import os
from pathlib import Path

import pytest
import yaml
from lightning.pytorch.loggers import MLFlowLogger
from PIL import Image

from lgx.methods import Pretrained
from lgx.training.loggers import RunLoggers, RunPlace
from lgx.training.run_folder import check_claim
from tests.support.command_line import arguments, free_port, lgx, ok
from tests.support.learngenes import save_source
from tests.support.mlflow_server import served
from tests.support.task_maps import write_tasks
from tests.support.wandb_runs import forget, points, read_run

pytestmark = pytest.mark.slow

LOGGERS = [
    {"class_path": "CSVLogger"},
    {"class_path": "TensorBoardLogger"},
    {"class_path": "WandbLogger", "init_args": {"offline": True, "tags": ["small"]}},
]
OURS = ("WANDB_MODE", "WANDB_PROJECT", "MLFLOW_TRACKING_URI")


@pytest.fixture(autouse=True, scope="module")
def environment():
    """Without the user's own places, and without reports to the makers of MLflow."""
    for library in ("wandb", "mlflow"):
        pytest.importorskip(library, reason="needs the loggers extra: pip install 'lgx[loggers]'")
    with pytest.MonkeyPatch.context() as patch:
        for name in OURS:
            patch.delenv(name, raising=False)
        patch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
        yield
    forget()


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    root = write_tasks(tmp_path_factory.mktemp("tasks"))
    save_source(Pretrained, root / "final.learngene.safetensors")
    return root


@pytest.fixture(scope="module")
def run(places, tmp_path_factory):
    """A run of two steps, resumed for two more, and its test."""
    runs = tmp_path_factory.mktemp("runs")
    (runs / "loggers.yaml").write_text(yaml.safe_dump({"trainer": {"logger": LOGGERS}}))
    _train_resume_test(places, runs, "--config", runs / "loggers.yaml")
    return runs / "test/small/seed0"


def _train_resume_test(places, runs, *options):
    for more in (["--trainer.max_epochs=1"], ["--trainer.max_epochs=2", "--ckpt_path=last"]):
        ok(lgx(*_arguments(places, runs), *options, *more))
    ok(lgx("test", "--config", runs / "test/small/seed0/config.yaml", "--ckpt_path=last"))
    assert not set(OURS) & set(os.environ)  # the next run of this process has its own loggers


def _arguments(places, runs):
    """A selection with two steps an epoch, which draws its routing."""
    sets = ",".join(str(places / name) for name in ("circles", "dots"))
    return [
        *(word for word in arguments("fit", "LSAMD", places, runs) if not word.startswith("--data")),
        f"--model.ancestor={places / 'final.learngene.safetensors'}",
        "--data=MultiTask", f"--data.tasks=[{sets}]", f"--data.root={places}", "--data.img_size=16",
        "--data.batch_size=6", "--data.steps_per_epoch=2", "--name=small", "--trainer.log_every_n_steps=1",
    ]  # fmt: skip


def test_wandb_continues_one_run_with_options_curves_and_figures(run):
    folders = sorted((run / "wandb").glob("offline-run-*"))
    first, resumed, tested = map(read_run, folders)
    assert len({part["id"] for part in (first, resumed, tested)}) == 1
    assert (first["project"], first["name"], first["group"], first["exit_code"]) == ("test", "small-seed0", "small", 0)
    assert first["config"]["model"] == "LSAMD"
    assert [part["config"]["trainer.max_epochs"] for part in (first, resumed)] == [1, 2]
    assert [step for part in (first, resumed) for step, _ in points(part, "train/loss")] == [0, 1, 2, 3]
    assert [step for step, _ in points(tested, "test/acc")] == [0]
    for part, folder, step in ((first, folders[0], 2), (resumed, folders[1], 4)):
        rows = [row for row in part["history"] if row.get("routing.filenames") or "routing" in row]
        assert [row["trainer/global_step"] for row in rows] == [step]
        (picture,) = (folder / "files/media/images").glob("routing_*.png")
        assert Image.open(picture).width > 100


def test_every_file_of_the_loggers_is_known(run):
    check_claim(run, overwrite=True, resumes=False)
    assert sorted(path.name for path in run.parents[2].iterdir()) == ["loggers.yaml", "test"]


def test_mlflow_continues_one_run_with_options_curves_and_figures(places, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _train_resume_test(places, tmp_path / "runs", "--trainer.logger=MLFlowLogger")
    run = tmp_path / "runs/test/small/seed0"
    _check_mlflow(f"sqlite:///{run / 'mlflow.db'}")
    (picture,) = (run / "mlartifacts").rglob("step_00000004.png")
    assert Image.open(picture).width > 100
    check_claim(run, overwrite=True, resumes=False)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]


def test_a_run_is_logged_to_an_mlflow_server(places, tmp_path):
    with served(tmp_path / "server", free_port()) as uri:
        options = ["--trainer.logger=MLFlowLogger", f"--trainer.logger.tracking_uri={uri}"]
        _train_resume_test(places, tmp_path / "runs", *options)
        assert not (tmp_path / "runs/test/small/seed0/mlflow.db").exists()
        _check_mlflow(uri, tmp_path / "fetched")
        ok(lgx(*_arguments(places, tmp_path / "runs"), *options, "--trainer.max_epochs=1", "--overwrite"))
        assert len(_mlflow_runs(uri)) == 2  # a run that replaces another is another run


def test_a_server_that_stops_ends_the_run_with_one_sentence(images, tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "1")
    monkeypatch.setenv("LGX_ALLOW_IMPORTS", "tests")
    words = ["--name=m", "--trainer.logger=MLFlowLogger", "--trainer.callbacks+=tests.support.mlflow_server.Stop"]
    with served(tmp_path / "server", free_port()) as uri:
        words += [f"--trainer.logger.tracking_uri={uri}", f"--trainer.callbacks.pid_file={tmp_path}/server/pid"]
        result = lgx(*arguments("fit", "Ancestor", images, tmp_path / "runs", *words))
    assert result.code == 2, result.err
    assert result.sentence.startswith("lgx fit: mlflow: cannot log (")
    assert result.sentence.endswith("--ckpt_path last resumes the run")
    assert "Traceback" not in result.err


def test_wandb_follows_its_environment_and_ends_no_run_of_others(images, tmp_path, monkeypatch):
    import wandb

    monkeypatch.setenv("WANDB_MODE", "offline")
    for name in ("PROJECT", "NAME", "RUN_GROUP", "RUN_ID"):
        monkeypatch.setenv(f"WANDB_{name}", f"my-{name}")
    monkeypatch.setenv("WANDB_DIR", str(tmp_path / "mine"))
    words = arguments("fit", "Ancestor", images, tmp_path / "runs", "--name=w", "--trainer.logger=WandbLogger")
    assert lgx(*words).code == 0
    (folder,) = (tmp_path / "mine/wandb").glob("offline-run-*")
    found = read_run(folder)
    assert [found[name] for name in ("project", "name", "group", "id")] == [
        "my-PROJECT", "my-NAME", "my-RUN_GROUP", "my-RUN_ID",
    ]  # fmt: skip
    assert wandb.run is None
    with wandb.init(dir=tmp_path) as own:
        assert lgx(*words, "--overwrite").code == 0
        assert wandb.run is own


def test_mlflow_continues_the_run_that_its_environment_names(tmp_path, monkeypatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "mine")
    for continues in (False, True):
        loggers = RunLoggers([], RunPlace(str(tmp_path), "a", "seed0"), continues)
        assert loggers._options(MLFlowLogger, {})["run_id"] == "mine"


def _mlflow_runs(uri):
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    experiment = client.get_experiment_by_name("test")
    return client.search_runs([experiment.experiment_id])


def _check_mlflow(uri: str, fetched: Path | None = None) -> None:
    from mlflow import MlflowClient

    client = MlflowClient(uri)
    (found,) = _mlflow_runs(uri)
    assert (found.info.run_name, found.info.status) == ("small-seed0", "FINISHED")
    assert (found.data.params["model"], found.data.params["trainer.max_epochs"]) == ("LSAMD", "1")
    assert found.data.tags["lgx.run"] == "test-small-seed0"
    history = {
        name: [metric.step for metric in client.get_metric_history(found.info.run_id, name)]
        for name in ("train/loss", "val/acc", "test/acc")
    }
    assert history == {"train/loss": [0, 1, 2, 3], "val/acc": [1, 3], "test/acc": [0]}
    pictures = [file.path for file in client.list_artifacts(found.info.run_id, "routing")]
    assert pictures == ["routing/step_00000002.png", "routing/step_00000004.png"]
    if fetched is not None:
        fetched.mkdir()
        path = client.download_artifacts(found.info.run_id, pictures[-1], str(fetched))
        assert Image.open(path).width > 100
    assert "tracking_uri" not in str(found.data.params)
