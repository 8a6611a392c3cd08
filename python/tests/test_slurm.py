"""The scripts of examples/slurm on a real Slurm: slurmctld and two slurmd on this machine, and jobs of a user
who is not root. Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge.
"""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BIN, ROOT

import ncclscope

NEEDED = ("slurmctld", "slurmd", "sbatch", "srun", "scancel", "scontrol", "munged", "runuser")
MISSING = [program for program in NEEDED if shutil.which(program) is None]
SYSTEM_PYTHON = "/usr/bin/python3"
if os.geteuid() != 0:
    MISSING.append("root")
if not os.path.exists(SYSTEM_PYTHON):
    MISSING.append(SYSTEM_PYTHON)
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"a real Slurm needs {', '.join(MISSING)}")

USER = "nobody"

# A rank of the job: twenty calls, then it waits, and ends as it is told.
TRAIN = """
import os, sys, time
from own_nccl import Nccl
nccl = Nccl(os.environ["NCCL_PROFILER_PLUGIN"], int(os.environ["SLURM_PROCID"]))
for _ in range(20):
    nccl.all_reduce()
time.sleep(float(sys.argv[2]))
nccl.close()
sys.exit(int(sys.argv[1]))
"""

CONF = """
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge/socket
SlurmctldPort={port}
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/spool.%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd.%n.pid
SlurmctldLogFile={root}/slurmctld.log
SlurmdLogFile={root}/slurmd.%n.log
ProctrackType=proctrack/pgid
TaskPlugin=task/none
SwitchType=switch/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
MpiDefault=none
KillWait=2
Epilog={root}/epilog.sh
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port1} CPUs=8 RealMemory=2000
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port2} CPUs=8 RealMemory=2000
PartitionName=p Nodes=n1,n2 Default=YES State=UP
"""


class Slurm:
    def __init__(self, root: Path) -> None:
        self.root = root
        self.home = root / "home"
        self.environment = {
            "SLURM_CONF": str(root / "slurm.conf"),
            "PATH": f"{root}/bin:/usr/bin:/bin",
            "HOME": str(self.home),
            "USER": USER,
            "NCCLSCOPE_TIMING": "host",
            "NCCLSCOPE_LOCAL": str(self.home),
        }

    def run(self, *command: str, check: bool = True) -> str:
        """Runs a command as the user, in the user's folder."""
        done = subprocess.run(
            [shutil.which("runuser") or "runuser", "-u", USER, "--", *command],
            cwd=self.home,
            env=self.environment,
            text=True,
            capture_output=True,
        )
        assert done.returncode == 0 or not check, done.stderr
        return done.stdout

    def submit(self, script: str, status: int, wait: float = 0.0) -> str:
        """The number of a job of two nodes with two ranks each."""
        rank = (SYSTEM_PYTHON, "train.py", str(status), str(wait))
        return self.run("sbatch", "--parsable", "--ntasks-per-node=2", script, *rank).strip()

    def field(self, job: str, name: str) -> str:
        found = re.search(rf"\b{name}=(\S+)", self.run("scontrol", "show", "job", job))
        return found[1] if found else ""

    def until(self, job: str, *states: str) -> None:
        self.until_true(lambda: self.field(job, "JobState") in states, f"{job} is one of {states}")

    def until_true(self, condition: object, what: str) -> None:
        assert callable(condition)
        end = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < end, f"not within a minute: {what}\n{self.output()}"
            time.sleep(0.2)

    def output(self) -> str:
        return "\n".join(file.read_text() for file in sorted(self.home.glob("slurm-*.out")))

    def processes(self, capture: str) -> int:
        return len(list((self.home / capture).rglob("*.trace")))


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.fixture(scope="module")
def slurm() -> Iterator[Slurm]:
    # pytest's own folders are for root only.
    with tempfile.TemporaryDirectory(prefix="ncclscope-slurm-") as made:
        root = Path(made)
        root.chmod(0o755)
        for name in ("bin", "home", "state", "spool.n1", "spool.n2", "munge"):
            (root / name).mkdir(mode=0o755)
        for file in ("ncclscope", "libnccl-profiler-ncclscope.so"):
            shutil.copy(BIN / file, root / "bin" / file)
        (root / "home/train.py").write_text(TRAIN)
        shutil.copy(Path(__file__).parent / "own_nccl.py", root / "home")
        for file in ("train.sbatch", "train-local.sbatch"):
            shutil.copy(ROOT / "examples/slurm" / file, root / "home")
        shutil.chown(root / "home", USER)
        epilog = (ROOT / "examples/slurm/epilog.sh").read_text()
        assert "${NCCLSCOPE_COMMAND:-ncclscope}" in epilog
        epilog = epilog.replace("${NCCLSCOPE_COMMAND:-ncclscope}", f"{root}/bin/ncclscope")
        (root / "epilog.sh").write_text(epilog)
        (root / "epilog.sh").chmod(0o755)
        ports = {name: free_port() for name in ("port", "port1", "port2")}
        host = socket.gethostname()
        (root / "slurm.conf").write_text(CONF.format(root=root, host=host, **ports))
        (root / "munge/key").write_bytes(os.urandom(1024))
        (root / "munge/key").chmod(0o400)
        place = [f"--{name}-file={root}/munge/{name}" for name in ("key", "log", "pid", "seed")]
        munged = ["munged", "--foreground", "--force", f"--socket={root}/munge/socket", *place]
        env = {**os.environ, "SLURM_CONF": str(root / "slurm.conf")}
        daemons = []

        def start(*command: str) -> None:
            quiet = subprocess.DEVNULL
            daemons.append(subprocess.Popen(command, env=env, stdin=quiet, stdout=quiet, stderr=quiet))

        try:
            start(*munged)
            cluster = Slurm(root)
            cluster.until_true((root / "munge/socket").exists, "munged listens")
            start("slurmctld", "-D")
            start("slurmd", "-D", "-N", "n1")
            start("slurmd", "-D", "-N", "n2")
            idle = ("sinfo", "--noheader", "--format=%T %D")
            cluster.until_true(lambda: cluster.run(*idle, check=False).strip() == "idle 2", "both nodes idle")
            yield cluster
        finally:
            for daemon in reversed(daemons):
                daemon.terminate()
            for daemon in daemons:
                daemon.wait(30)


def test_a_job_ends_as_its_training_did(slurm: Slurm) -> None:
    job = slurm.submit("train.sbatch", 7)
    slurm.until(job, "FAILED")
    assert slurm.field(job, "ExitCode") == "7:0"
    output = (slurm.home / f"slurm-{job}.out").read_text()
    # One task for each node, though the header asks for more.
    assert output.count("0 adopted, 0 alive, 0 elsewhere") == 2
    assert "80 of 80 announced calls recorded" in output
    report = ncclscope.open(slurm.home / "captures" / job).report()
    assert report.completeness.recorded == 80


def test_a_requeued_job_has_a_capture_for_each_start(slurm: Slurm) -> None:
    job = slurm.submit("train.sbatch", 0, 600)
    slurm.until_true(lambda: slurm.processes(f"captures/{job}") == 4, "it records")
    # `hang` from outside, beside the job's own tasks.
    beside = ("srun", f"--jobid={job}", "--overlap", "--nodes=1", "--ntasks=1")
    told = slurm.run(*beside, "ncclscope", "hang", f"captures/{job}", check=False)
    assert "(last call of each rank" in told
    slurm.run("scontrol", "requeue", job)
    slurm.until(job, "PENDING")
    # Slurm waits for two minutes otherwise.
    admin = {**os.environ, "SLURM_CONF": slurm.environment["SLURM_CONF"]}
    subprocess.run(["scontrol", "update", f"jobid={job}", "StartTime=now"], env=admin, check=True)
    slurm.until_true(lambda: slurm.processes(f"captures/{job}-1") == 4, "it records again")
    slurm.run("scancel", job)
    slurm.until(job, "CANCELLED")
    # The job's script had no time: the epilog collected, as the user.
    for capture in (f"captures/{job}", f"captures/{job}-1"):
        folder = slurm.home / capture
        slurm.until_true(lambda: len(list(folder.rglob("*.live"))) == 4, f"{capture} is collected")
        assert {file.owner() for file in folder.rglob("*")} == {USER}
        assert ncclscope.open(folder).report().completeness.recorded == 80


def test_local_disks_are_copied_and_emptied(slurm: Slurm) -> None:
    job = slurm.submit("train-local.sbatch", 0)
    slurm.until(job, "COMPLETED")
    assert slurm.processes(f"captures/{job}") == 4
    assert ncclscope.open(slurm.home / "captures" / job).report().completeness.recorded == 80
    assert list(slurm.home.glob("ncclscope-*")) == []
