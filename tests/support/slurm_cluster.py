"""A private SLURM cluster of two nodes on the loopback address.

All daemons run in the foreground as children of this process, with their files in a temporary folder and on free
ports. munge has its own key and socket there: a munge or a SLURM of the system is neither used nor changed. The system
sends SIGTERM to the daemons if this process dies without ending them.
"""

import contextlib
import getpass
import os
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.command_line import free_port, wait_until

PROGRAMS = ("slurmctld", "slurmd", "munged", "sbatch", "srun", "squeue", "scontrol", "setpriv")
HOW_TO_INSTALL = "needs a SLURM to start on this machine: apt-get install slurm-wlm munge"
NODES = ("n0", "n1")

_CONFIGURATION = """
ClusterName=lgx
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool%n
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd%n.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
JobRequeue=1
MpiDefault=none
ReturnToService=1
SlurmctldPort={port}
{nodes}
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


def missing_programs() -> list[str]:
    """The programs that are not installed."""
    return [program for program in PROGRAMS if shutil.which(program, path=_path()) is None]


class SlurmCluster:
    """All files lie in ``folder``. Use :func:`slurm_cluster` to start one."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configuration = folder / "slurm.conf"
        self.environment = {**os.environ, "SLURM_CONF": str(self.configuration), "PATH": _path()}
        self._daemons: dict[str, subprocess.Popen[bytes]] = {}

    def start(self) -> None:
        """Start all daemons, and wait until both nodes are idle."""
        host = socket.gethostname().split(".")[0]
        place = f"NodeHostname={host} NodeAddr=127.0.0.1 CPUs=1 RealMemory=4000 State=UNKNOWN"
        nodes = "\n".join(f"NodeName={node} Port={free_port()} {place}" for node in NODES)
        self.configuration.write_text(
            _CONFIGURATION.format(host=host, user=getpass.getuser(), folder=self.folder, port=free_port(), nodes=nodes)
        )
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(os.urandom(128))
        files = {name: self.folder / f"munge.{name}" for name in ("socket", "pid", "log", "seed")}
        self._start(
            "munged", "--foreground", f"--key-file={key}", f"--socket={files['socket']}",
            f"--pid-file={files['pid']}", f"--log-file={files['log']}", f"--seed-file={files['seed']}",
        )  # fmt: skip
        wait_until(files["socket"].exists, 20, "munge's socket exists")
        self.start_controller()
        for node in NODES:
            self._start("slurmd", "-D", "-N", node, name=node)
        wait_until(
            lambda: self.ask("sinfo", "-h", "-N", "-o", "%T").split() == ["idle"] * 4,
            60,
            "both nodes are idle",
            self._why,
        )

    def stop(self) -> None:
        """End all jobs, and then all daemons."""
        with contextlib.suppress(OSError, subprocess.SubprocessError):
            self._run("scancel", "--full", "--signal=KILL", f"--user={getpass.getuser()}", timeout=10)
            self._run("scancel", f"--user={getpass.getuser()}", timeout=10)
        daemons = list(self._daemons.values())
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in daemons:
            try:
                daemon.wait(timeout=10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
        self._daemons.clear()
        for process in self._processes():  # those of jobs, which outlive slurmd
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    def start_controller(self) -> None:
        """Start slurmctld, and wait until it answers."""
        self._start("slurmctld", "-D")
        wait_until(lambda: "UP" in self.ask("scontrol", "ping"), 60, "slurmctld answers", self._why)

    def clear(self) -> None:
        """Cancel all jobs, wait until they have ended, and make all nodes usable."""
        if "slurmctld" not in self._daemons:
            self.start_controller()
        self.ask("scancel", f"--user={getpass.getuser()}")
        wait_until(lambda: not self.ask("squeue", "--noheader"), 60, "all jobs end", self._why)
        for node in NODES:
            self.ask("scontrol", "update", f"nodename={node}", "state=resume")

    def kill_controller(self) -> None:
        """Kill slurmctld without giving it time to save its state."""
        daemon = self._daemons.pop("slurmctld")
        daemon.kill()
        daemon.wait()

    def ask(self, *command: object) -> str:
        """What a command of SLURM prints, also if it fails."""
        done = self._run(*command)
        return done.stdout + done.stderr

    def tell(self, *command: object) -> str:
        """Run a command of SLURM that must succeed; returns what it prints."""
        done = self._run(*command)
        assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
        return done.stdout

    def jobs(self) -> dict[str, str]:
        """Number of every job that SLURM lists -> its state."""
        lines = self.ask("squeue", "--noheader", "--array", "--states=all", "--format=%i %T").splitlines()
        return dict(line.split(maxsplit=1) for line in lines)

    def detail(self, job: str, key: str) -> str:
        """A value of ``scontrol show job``."""
        words = self.ask("scontrol", "--oneliner", "show", "job", job).split()
        return next((word.partition("=")[2] for word in words if word.startswith(f"{key}=")), "")

    def restart_now(self, job: str, seconds: float = 90) -> None:
        """Wait until a job is requeued, and let it start at once: SLURM would wait for two minutes."""
        wait_until(lambda: self.detail(job, "Restarts") != "0", seconds, f"job {job} is requeued", self._why)
        wait_until(lambda: self.detail(job, "JobState") in ("PENDING", "RUNNING"), 60, f"job {job} waits")
        self.ask("scontrol", "update", f"jobid={job}", "starttime=now")

    def _start(self, program: str, *arguments: str, name: str = "") -> None:
        with (self.folder / f"{name or program}.out").open("ab") as out:
            self._daemons[name or program] = subprocess.Popen(
                ["setpriv", "--pdeathsig", "TERM", program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C ends the daemons in order, after the jobs
            )

    def _run(self, *command: object, timeout: float = 60) -> "subprocess.CompletedProcess[str]":
        words = [str(word) for word in command]
        return subprocess.run(words, env=self.environment, capture_output=True, text=True, timeout=timeout)

    def _processes(self) -> list[int]:
        """Processes whose environment names this cluster, except this one and those that are not SLURM's or a job's."""
        mark, found = f"SLURM_CONF={self.configuration}".encode(), []
        for path in Path("/proc").glob("[0-9]*/environ"):
            with contextlib.suppress(OSError):
                if mark in path.read_bytes().split(b"\0") and int(path.parent.name) != os.getpid():
                    found.append(int(path.parent.name))
        return found

    def _why(self) -> str:
        """The end of the controller's log."""
        log = self.folder / "slurmctld.log"
        return log.read_text(errors="replace")[-2000:] if log.exists() else f"no log in {self.folder}"


@contextlib.contextmanager
def slurm_cluster() -> Iterator[SlurmCluster]:
    """Start a cluster, and end its jobs and daemons at the end of the block, also after Ctrl-C and SIGTERM."""
    folder = Path(tempfile.mkdtemp(prefix="lgx-slurm-", dir="/tmp"))  # short: a socket's path has 107 characters
    folder.chmod(0o711)  # munge refuses a socket that other users cannot reach
    cluster = SlurmCluster(folder)
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cluster.start()
        yield cluster
    finally:
        old = signal.signal(signal.SIGINT, signal.SIG_IGN)  # a second Ctrl-C must not leave daemons behind
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
        signal.signal(signal.SIGINT, old)
        signal.signal(signal.SIGTERM, before)


def _path() -> str:
    """PATH with the folders of daemons."""
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
