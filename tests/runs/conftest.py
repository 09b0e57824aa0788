"""Jobs of any command line."""

import pytest

from lgx.runs.jobs import Job


@pytest.fixture
def make_job(tmp_path):
    """``make_job("name", *arguments)``: a job with any command line."""

    def make(name, *arguments):
        return Job(name, str(tmp_path / "e" / name / "seed0"), arguments, str(tmp_path / f"e/jobs/{name}/seed0.log"))

    return make
