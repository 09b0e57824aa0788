"""A real SLURM cluster for all tests of this folder."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.command_line import lgx, ok
from tests.support.slurm_cluster import HOW_TO_INSTALL, SlurmCluster, missing_programs, slurm_cluster
from tests.support.slurm_sweeps import SlurmSweep, job_variables, outcome, write_sweep


@pytest.fixture(scope="session")
def session_cluster() -> Iterator[SlurmCluster]:
    if missing := missing_programs():
        pytest.skip(f"{HOW_TO_INSTALL} ({', '.join(missing)} not found)")
    with slurm_cluster() as cluster:
        yield cluster


@pytest.fixture
def cluster(session_cluster: SlurmCluster) -> Iterator[SlurmCluster]:
    """A cluster without jobs."""
    yield session_cluster
    session_cluster.clear()


@pytest.fixture(scope="session")
def sweep_file(images: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_sweep(tmp_path_factory.mktemp("sweep"), images)


@pytest.fixture(scope="session")
def undisturbed(sweep_file: Path, tmp_path_factory: pytest.TempPathFactory) -> list[object]:
    """Outcome of the sweep in this process, without SLURM."""
    runs = tmp_path_factory.mktemp("undisturbed")
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("SLURM_")]:
            patch.delenv(name)
        for name, value in job_variables().items():
            patch.setenv(name, value)
        ok(lgx("sweep", sweep_file, "--runs_dir", runs, "--results", runs / "all.csv"))
    return outcome(runs)


@pytest.fixture
def start_sweep(cluster: SlurmCluster, sweep_file: Path, tmp_path: Path) -> Iterator[Callable[..., SlurmSweep]]:
    """``start_sweep(seconds, **submitit_parameters)`` starts the sweep on the cluster."""
    started: list[SlurmSweep] = []

    def start(seconds: float = 0.5, **options: object) -> SlurmSweep:
        sweep = SlurmSweep(cluster, sweep_file, tmp_path / "runs", seconds, **options)
        started.append(sweep)
        sweep.start()
        return sweep

    yield start
    for sweep in started:
        sweep.stop()
