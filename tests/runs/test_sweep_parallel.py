"""Sweeps of several runs at a time: order, failures, locks, restarts, clusters."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import yaml

from lgx.core.rows import Row, read_rows, write_rows
from lgx.errors import Preempted, UserError
from lgx.runs.executors import Failure, Ticket
from lgx.runs.pool import Pool
from lgx.runs.report import Bar, Report
from lgx.runs.schedule import run_all, works_of
from lgx.runs.submitted import Local, Slurm, _share
from lgx.runs.sweeps import load_sweep, pending_runs
from lgx.runs.work import Work, do, is_finished, is_locked, locked, mark_finished
from tests.support.command_line import ARCH, lgx


class Rehearsal:
    """An executor whose runs end one look after they started, in the order of their start."""

    interval = 0.0

    def __init__(self, limit, play):
        self.limit, self.play = limit, play
        self.events, self.most, self._open = [], 0, []

    def submit(self, works):
        tickets = [Ticket(work, None) for work in works]
        self._open += tickets
        self.most = max(self.most, len(self._open))
        self.events += [("start", work.name) for work in works]
        return tickets

    def poll(self, ticket):
        if ticket is not self._open[0]:
            return None
        self._open.pop(0)
        self.events.append(("end", ticket.work.name))
        return self.play(ticket.work)

    def cancel(self, tickets):
        self.events += [("cancel", ticket.work.name) for ticket in tickets]


def finish(work):
    """Leave what a run leaves."""
    row = Row("m", "a", "t", "test", 1, "acc", 0.5, 0, 10, work.folder)
    write_rows(Path(work.folder) / "results.csv", [row])
    mark_finished(work)
    return "finished"


@pytest.fixture
def chain(tmp_path):
    """Two seeds of ancestor -> sws -> sws-ft, written last first, and of a run that needs none."""
    path = "{{runs}}/{}/seed{{seed}}/best.learngene.safetensors"
    runs = [
        {"name": "sws-ft", "config": "c.yaml", "options": {"model.init": path.format("sws")}},
        {"name": "sws", "config": "c.yaml", "options": {"model.ancestor": path.format("ancestor")}},
        {"name": "ancestor", "config": "c.yaml"},
        {"name": "random", "config": "c.yaml"},
    ]
    (tmp_path / "c.yaml").write_text("")
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0, 1], "runs": runs}))
    return load_sweep(tmp_path / "s.yaml", str(tmp_path / "runs"))


def rehearse(sweep, executor, tmp_path):
    results = tmp_path / "measured.csv"
    works = works_of(sweep, pending_runs(sweep, results))
    run_all(sweep, works, Pool(executor, Report(len(works))), results)


def test_runs_start_when_those_they_need_have_finished_and_seed_by_seed(chain, tmp_path, capsys):
    executor = Rehearsal(2, finish)
    rehearse(chain, executor, tmp_path)
    started = [name for what, name in executor.events if what == "start"]
    assert len(set(started)) == len(started) == 8
    for seed in (0, 1):
        for need, name in (("ancestor", "sws"), ("sws", "sws-ft")):
            ended = executor.events.index(("end", f"{need} seed {seed}"))
            assert ended < executor.events.index(("start", f"{name} seed {seed}"))
    assert started[:2] == ["ancestor seed 0", "random seed 0"]
    assert started.index("sws-ft seed 0") < started.index("sws-ft seed 1")
    assert executor.most == 2
    assert len(read_rows(tmp_path / "measured.csv")) == 8
    assert "8 of 8 done" in capsys.readouterr().out


def test_a_failed_run_is_skipped_with_its_dependants_and_nothing_else(chain, tmp_path, capsys):
    fails = lambda work: Failure("no space", "x.log") if work.name == "ancestor seed 0" else finish(work)  # noqa: E731
    with pytest.raises(UserError) as error:
        rehearse(chain, Rehearsal(2, fails), tmp_path)
    assert str(error.value) == (
        "1 of 8 runs failed: ancestor seed 0 (no space; log x.log); 2 that need them were skipped; "
        "the same command goes on"
    )
    out = capsys.readouterr().out
    assert "skipped    sws seed 0: it needs ancestor seed 0" in out
    assert "skipped    sws-ft seed 0: it needs sws seed 0" in out
    assert "8 of 8 done, 1 failed, 0 running" in out
    assert len(read_rows(tmp_path / "measured.csv")) == 5
    again = Rehearsal(2, finish)
    rehearse(chain, again, tmp_path)
    assert [name for what, name in again.events if what == "start"] == [
        "ancestor seed 0", "sws seed 0", "sws-ft seed 0",
    ]  # fmt: skip


def test_on_a_terminal_a_bar_counts_and_failures_stand_above_it(chain, tmp_path, capsys):
    fails = lambda work: Failure("no space", "x.log") if work.name == "sws seed 0" else finish(work)  # noqa: E731
    works = works_of(chain, list(chain.runs))
    with pytest.raises(UserError), Bar(len(works)) as bar:
        run_all(chain, works, Pool(Rehearsal(2, fails), bar), tmp_path / "measured.csv")
    out = capsys.readouterr().out
    assert "failed     sws seed 0: no space; log x.log\nskipped    sws-ft seed 0: it needs sws seed 0\n" in out
    assert "8/8" in out
    assert "started" not in out


def test_runs_that_need_each_other_are_refused(tmp_path):
    runs = [
        {"name": name, "config": "c", "options": {"x": f"{{runs}}/{other}/seed0/f"}} for name, other in ("ab", "ba")
    ]
    (tmp_path / "s.yaml").write_text(yaml.safe_dump({"experiment": "e", "seeds": [0], "runs": runs}))
    assert "in a circle" in lgx("sweep", tmp_path / "s.yaml").sentence


# -- processes ----------------------------------------------------------------------------------------------------


@pytest.fixture
def work(tmp_path):
    """``work("name", *arguments)``: a run of any command line."""

    def make(name, *arguments):
        return Work(name, str(tmp_path / "e" / name / "seed0"), arguments, str(tmp_path / f"e/jobs/{name}/seed0.log"))

    return make


@pytest.fixture
def pool(tmp_path, monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with Pool(Local(tmp_path / "e/jobs/submitit", 2), Report(2)) as pool:
        yield pool


def test_every_run_has_a_process_a_log_and_an_end(work, pool, capsys):
    good, bad = work("good", "--version"), work("bad", "nonsense")
    pool.start([good, bad])
    assert pool.free == 0
    ended = {}
    while some := pool.wait():
        ended |= {one.name: outcome for one, outcome in some}
    assert ended["good"] == "finished"
    assert Path(good.log).read_text().startswith("lgx ")
    assert ended["bad"].log == bad.log
    assert ended["bad"].reason == Path(bad.log).read_text().strip()
    assert "'nonsense' is no command" in ended["bad"].reason
    assert is_finished(good)
    assert not is_finished(bad)

    pool.start([good])
    assert pool.wait() == [(good, "finished")]
    assert Path(good.log).read_text().count("lgx ") == 1
    assert not is_locked(good.folder)


def test_what_keeps_a_run_from_starting_is_in_submitits_log(work, pool, tmp_path):
    from dataclasses import replace

    (tmp_path / "file").touch()
    ill = replace(work("ill", "--version"), log=str(tmp_path / "file" / "x.log"))
    pool.start([ill])
    ((_, outcome),) = pool.wait()
    assert outcome.reason == "it could not be run"
    assert "FileExistsError" in Path(outcome.log).read_text()


def test_a_run_has_finished_only_as_long_as_nothing_it_is_made_of_changes(work, tmp_path):
    from dataclasses import replace

    config, learngene = tmp_path / "c.yaml", tmp_path / "best"
    config.touch()
    learngene.touch()
    done = replace(work("a", "fit"), inputs=(str(config),), outputs=(str(learngene),))
    mark_finished(done)
    assert is_finished(done)
    assert not is_finished(replace(done, arguments=("fit", "--other")))
    later = time.time() + 5
    os.utime(config, (later, later))
    assert not is_finished(done)
    mark_finished(done)
    os.utime(config, (later - 100, later - 100))
    learngene.unlink()
    assert not is_finished(done)


def test_a_locked_run_is_waited_for_and_not_started_twice(work, pool, capsys):
    one, found = work("one", "--version"), []
    with locked(one.folder) as lock:
        assert lock is not None
        pool.start([one])
        assert "waiting    one: another process works on it" in capsys.readouterr().out
        assert pool.free == 1
        ended = threading.Thread(target=lambda: found.extend(pool.wait()))
        ended.start()
        ended.join(1)
        assert ended.is_alive()
        mark_finished(one)  # as the process does that holds the lock
    ended.join()
    assert found == [(one, "finished")]
    assert not Path(one.log).exists()


def test_a_run_that_another_process_left_unfinished_is_started(work, pool):
    one = work("one", "--version")
    with locked(one.folder):
        pool.start([one])
    assert pool.wait() == [(one, "finished")]
    assert Path(one.log).exists()


def child_of(pid):
    """The one child of a process, once it is there."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        children = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")).split()
        if children:
            (child,) = children
            return int(child)
        time.sleep(0.01)
    raise AssertionError(f"process {pid} never had a child")


def test_a_run_stays_locked_when_all_that_watched_it_is_killed(work, pool):
    """``fit --help`` takes as long as torch's import."""
    slow = work("slow", "fit", "--help")
    pool.start([slow])
    deadline = time.monotonic() + 60
    while not Path(slow.log).exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    (ticket,) = pool._tickets
    watcher = int(ticket.job.job_id)
    wrapper = child_of(watcher)
    run = child_of(wrapper)
    os.kill(watcher, signal.SIGKILL)
    os.kill(wrapper, signal.SIGKILL)
    ((_, outcome),) = pool.wait()
    assert outcome.reason == "its process was killed"
    assert is_locked(slow.folder)
    os.kill(run, signal.SIGKILL)
    while is_locked(slow.folder) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_locked(slow.folder)


@pytest.mark.parametrize(
    ("gpus", "slots", "shares"),
    [
        ([], 2, [[], []]),
        (["0", "1", "2", "3"], 2, [["0", "1"], ["2", "3"]]),
        (["0", "1"], 3, [["0"], ["1"], ["0"]]),
        (["0", "1", "2"], 2, [["0"], ["1", "2"]]),
    ],
)
def test_runs_share_the_gpus(gpus, slots, shares):
    found = [_share(gpus, slot, slots) for slot in range(slots)]
    assert [len(share) for share in found] == [len(share) for share in shares]
    if len(gpus) >= slots:
        assert found == shares


# -- the command --------------------------------------------------------------------------------------------------


@pytest.fixture
def sweep_file(images, tmp_path):
    """``sweep_file([...runs])``, on the tiny images: ``fit.yaml`` trains an ancestor, ``descend.yaml`` a descendant."""
    data = {"class_path": "ImageFolderData", "init_args": {"root": str(images), "img_size": 16, "batch_size": 16}}
    trainer = {"max_epochs": 1, "accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    optimizer = {"class_path": "torch.optim.AdamW", "init_args": {"lr": 0.003}}
    for name, method in {"fit": "Ancestor", "descend": "Finetune"}.items():
        model = {"class_path": method, "init_args": {"arch": ARCH, "optimizer": optimizer}}
        config = {"model": model, "data": data, "trainer": trainer, "test_end": True}
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config))

    def write(runs):
        path = tmp_path / "sweep.yaml"
        path.write_text(yaml.safe_dump({"experiment": "s", "seeds": [0], "runs": runs}, sort_keys=False))
        return ["sweep", str(path), "--runs_dir", str(tmp_path / "runs"), "--parallel", "2"]

    return write


def start(command):
    """The command in a process that hears Ctrl-C, and in a group of its own, as a terminal's are."""
    listen = lambda: signal.signal(signal.SIGINT, signal.SIG_DFL)  # noqa: E731
    return subprocess.Popen(
        [sys.executable, "-m", "lgx", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""},
        preexec_fn=listen,
        start_new_session=True,
    )


def wait_for(path):
    deadline = time.monotonic() + 100
    while not path.exists():
        assert time.monotonic() < deadline, f"{path} never came"
        time.sleep(0.05)


@pytest.mark.slow
def test_a_failing_run_leaves_the_others_alone(sweep_file, tmp_path):
    learngene = "{runs}/broken/seed{seed}/best.learngene.safetensors"
    command = sweep_file(
        [
            {"name": "broken", "config": "fit.yaml", "options": {"data.batch_size": 0}},
            {"name": "needs", "config": "fit.yaml", "options": {"model.ancestor": learngene}},
            {"name": "random", "command": "test", "config": "descend.yaml"},
        ]
    )
    result = lgx(*command)
    assert result.code == 2
    log = tmp_path / "runs/s/jobs/broken/seed0.log"
    assert result.sentence.startswith("lgx sweep: 1 of 3 runs failed: broken seed 0 (lgx fit: ")
    assert "batch_size" in result.sentence
    assert f"log {log}); 1 that need them were skipped" in result.sentence
    assert {Path(row.run).parent.name for row in read_rows(tmp_path / "runs/s/measured.csv")} == {"random"}
    assert not (tmp_path / "runs/s/jobs/needs").exists()


def test_after_kill_9_of_the_command_the_next_one_takes_up_its_runs(sweep_file, tmp_path):
    learngene = "{runs}/ancestor/seed{seed}/best.learngene.safetensors"
    start_of = {"model.initializer": "VanillaLG", "model.initializer.layers": 2, "model.initializer.source": learngene}
    command = sweep_file(
        [
            {"name": "ancestor", "config": "fit.yaml"},
            {"name": "child", "command": "test", "config": "descend.yaml", "options": start_of},
        ]
    )
    killed = start(command)
    log = tmp_path / "runs/s/jobs/ancestor/seed0.log"
    wait_for(log)
    killed.kill()
    killed.wait()
    again = lgx(*command)
    assert again.code == 0, again.err
    assert "waiting    ancestor seed 0: another process works on it" in again.out
    assert "started    ancestor" not in again.out
    assert log.read_text().count("Seed set to 0") == 1
    rows = read_rows(tmp_path / "runs/s/measured.csv")
    assert {(Path(row.run).parent.name, row.split) for row in rows} == {("ancestor", "test"), ("child", "test")}
    assert "0 of 2 runs to do" in lgx(*command).out


def test_ctrl_c_ends_the_runs_and_says_one_sentence(sweep_file, tmp_path):
    command = sweep_file([{"name": "long", "config": "fit.yaml", "options": {"trainer.max_epochs": 100000}}])
    controller = start(command)
    wait_for(tmp_path / "runs/s/long/seed0/checkpoints/last.ckpt")
    os.killpg(controller.pid, signal.SIGINT)
    _, err = controller.communicate(timeout=60)
    assert controller.returncode == 130, err
    assert err.strip() == "lgx sweep: interrupted; 1 run(s) were ended, the same command goes on with them"
    assert not is_locked(tmp_path / "runs/s/long/seed0")
    assert "SIGTERM: saved" in (tmp_path / "runs/s/jobs/long/seed0.log").read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--parallel", "0"], "at least 1 run"),
        (["--slurm", "{partition: x}"], "goes with --cluster slurm"),
        (["--cluster", "slurm"], "give timeout_min"),
        (["--cluster", "slurm", "--slurm", "{timeout_min: 5}"], "no srun here"),
        (["--cluster", "pbs"], "expected one of"),
    ],
)
def test_wrong_options_are_explained(sweep_file, options, words, monkeypatch):
    monkeypatch.setenv("PATH", "/nowhere")
    command = sweep_file([{"name": "a", "config": "fit.yaml"}])
    result = lgx(*command, *options)
    assert result.code == 2
    assert words in result.sentence


def test_without_submitit_it_is_said_what_to_install(sweep_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "submitit", None)
    result = lgx(*sweep_file([{"name": "a", "config": "fit.yaml"}]))
    assert result.sentence == (
        "lgx sweep: --parallel: needs submitit, which is not installed; pip install 'lgx[sweep]'"
    )


# -- SLURM, as far as its commands are seen from outside ------------------------------------------------------------

SBATCH = """#!{python}
import os, re, subprocess, sys
home = "{home}"
text = open(sys.argv[1]).read()
number = 100 + len(os.listdir(home + "/scripts"))
open(home + f"/scripts/{{number}}.sh", "w").write(text)
array = re.search(r"--array=0-(\\d+)", text)
if os.path.exists(home + "/busy"):
    tasks = []
else:
    tasks = range(int(array[1]) + 1) if array else [None]
for task in tasks:
    env = {{**os.environ, "SLURM_JOB_ID": str(number)}}
    if task is not None:
        env |= {{"SLURM_ARRAY_JOB_ID": str(number), "SLURM_ARRAY_TASK_ID": str(task)}}
    subprocess.Popen(["bash", sys.argv[1]], env=env, start_new_session=True, stdout=subprocess.DEVNULL,
                     stderr=subprocess.DEVNULL)
print(f"Submitted batch job {{number}}")
"""
SRUN = """#!{python}
import os, sys
arguments = sys.argv[1:]
command = arguments[arguments.index("--error") + 2:]
for name, stream in (("--output", 1), ("--error", 2)):
    path = arguments[arguments.index(name) + 1]
    job, task = os.environ["SLURM_JOB_ID"], os.environ.get("SLURM_ARRAY_TASK_ID", "")
    path = path.replace("%A_%a", f"{{job}}_{{task}}").replace("%j", job).replace("%t", "0")
    os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), stream)
os.execvp(command[0], command)
"""


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Commands of SLURM that start every job at once on this machine; sacct says what ``state`` holds."""
    home = tmp_path / "slurm"
    (home / "scripts").mkdir(parents=True)
    (home / "state").write_text("RUNNING")
    table = f'for job in 100 100_0 100_1; do echo "$job|$(cat {home}/state)|n"; done'
    scripts = {
        "sbatch": SBATCH.format(python=sys.executable, home=home),
        "srun": SRUN.format(python=sys.executable),
        "sacct": f"#!/bin/sh\necho 'JobID|State|NodeList'\n{table}\n",
        "scancel": f'#!/bin/sh\necho "$@" >> {home}/cancelled\n',
    }
    for name, text in scripts.items():
        (home / name).write_text(text)
        (home / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")
    from submitit import SlurmJob

    yield home
    SlurmJob.watcher.clear()
    SlurmJob.watcher._registered.clear()


def test_slurm_runs_an_array_with_the_given_parameters(work, cluster, tmp_path):
    parameters = {"partition": "gpu", "timeout_min": 240, "gpus_per_node": 2, "mem_gb": 8, "account": "lab"}
    with Pool(Slurm(tmp_path / "e/jobs/submitit", 2, parameters), Report(3)) as pool:
        works = [work(name, *arguments) for name, *arguments in (("a", "--version"), ("b", "oops"), ("c", "--version"))]
        pool.start(works)
        ended = {}
        while some := pool.wait():
            ended |= {one.name: outcome for one, outcome in some}
    assert (ended["a"], ended["c"]) == ("finished", "finished")
    assert "'oops' is no command" in ended["b"].reason
    assert ended["b"].log == works[1].log
    (script,) = (cluster / "scripts").iterdir()
    lines = script.read_text().splitlines()
    for flag in (
        "--array=0-2%2", "--partition=gpu", "--time=240", "--gpus-per-node=2", "--mem=8GB", "--account=lab",
        "--requeue", "--signal=USR1@90",
    ):  # fmt: skip
        assert f"#SBATCH {flag}" in lines
    assert not (cluster / "cancelled").exists()


def test_a_run_that_has_queued_itself_again_is_not_over(work, cluster, tmp_path, monkeypatch):
    """Its process ends with 0 and has not written its summary; SLURM then starts the job once more."""
    again = work("a", "fit")
    with monkeypatch.context() as patch:
        patch.setattr(sys, "executable", "/bin/true")
        before = signal.getsignal(signal.SIGUSR1)
        with pytest.raises(SystemExit):
            do(again, {}, None)
        signal.signal(signal.SIGUSR1, before)
    assert not is_finished(again)

    (cluster / "busy").touch()
    executor = Slurm(tmp_path / "e/jobs/submitit", 1, {"timeout_min": 5})
    (ticket,) = executor.submit([again])
    for state in ("PREEMPTED", "REQUEUED", "PENDING", "RUNNING"):
        (cluster / "state").write_text(state)
        ticket.job.watcher.update()
        assert executor.poll(ticket) is None


def test_leaving_cancels_what_is_queued(work, cluster, tmp_path):
    (cluster / "busy").touch()
    executor = Slurm(tmp_path / "e/jobs/submitit", 2, {"timeout_min": 5})
    pool = Pool(executor, Report(2))
    pool.start([work("a", "--version"), work("b", "--version")])
    with pytest.raises(Preempted, match="2 run"), pool:
        raise KeyboardInterrupt
    assert (cluster / "cancelled").read_text().split() == ["100_0", "100_1"]


def test_what_slurm_calls_over_without_a_result_has_failed(work, cluster, tmp_path, monkeypatch):
    from submitit import SlurmJob

    monkeypatch.setattr(SlurmJob, "_results_timeout_s", 0)
    (cluster / "busy").touch()
    (cluster / "state").write_text("OUT_OF_MEMORY")
    with Pool(Slurm(tmp_path / "e/jobs/submitit", 2, {"timeout_min": 5}), Report(1)) as pool:
        pool.start([work("a", "--version")])
        ((_, outcome),) = pool.wait()
    assert outcome.reason == "SLURM says OUT_OF_MEMORY"


def test_wrong_parameters_of_slurm_are_explained(cluster, tmp_path):
    with pytest.raises(UserError, match="--slurm: Unknown argument 'partion'"):
        Slurm(tmp_path, 1, {"timeout_min": 5, "partion": "x"})
    with pytest.raises(UserError, match='--slurm: Parameter "timeout_min" expected type'):
        Slurm(tmp_path, 1, {"timeout_min": "x"})
    (cluster / "sbatch").write_text("#!/bin/sh\necho 'invalid partition' >&2\nexit 1\n")
    with pytest.raises(UserError, match="sbatch refused: invalid partition"):
        Slurm(tmp_path, 1, {"timeout_min": 5}).submit([Work("a", str(tmp_path / "a"), ("--version",), "x.log")])
