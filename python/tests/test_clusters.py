"""The files of examples/kubernetes, examples/ray and examples/ci, and launchers, with the real programs where
they are installed. Ranks make calls as NCCL does (``own_nccl.py``).
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import yaml
from conftest import BIN, ROOT, run

import ncclscope

HERE = Path(__file__).parent

# A rank that makes ten calls. In its first start under torchrun, rank 1 fails.
RANK = f"""
import os, sys, time
sys.path.insert(0, {str(HERE)!r})
from own_nccl import Nccl
names = ("RANK", "PMI_RANK", "OMPI_COMM_WORLD_RANK")
rank = next(int(os.environ[name]) for name in names if name in os.environ)
nccl = Nccl(os.environ["NCCL_PROFILER_PLUGIN"], rank)
for _ in range(10):
    nccl.all_reduce()
    time.sleep(0.01)
if os.environ.get("TORCHELASTIC_RESTART_COUNT") == "0" and rank == 1:
    sys.exit(3)
nccl.close()
"""


def environment(**more: str) -> dict[str, str]:
    others = ("NCCL_", "NCCLSCOPE_RUN", "NCCLSCOPE_OUT")
    kept = {k: v for k, v in os.environ.items() if not k.startswith(others)}
    return {**kept, "NCCLSCOPE_QUIET": "1", "PATH": f"{BIN}:{os.environ['PATH']}", **more}


def manifest() -> list[dict[str, Any]]:
    return list(yaml.safe_load_all((ROOT / "examples/kubernetes/job.yaml").read_text()))


@pytest.mark.skipif(find_spec("kubernetes_validate") is None, reason="needs kubernetes-validate")
def test_the_manifest_is_one_of_kubernetes() -> None:
    import kubernetes_validate

    newest = kubernetes_validate.latest_version()
    for part in manifest():
        kubernetes_validate.validate(part, newest, strict=True)


def test_the_commands_of_the_manifest_run(tmp_path: Path) -> None:
    (_, job) = manifest()
    pod = job["spec"]["template"]["spec"]
    # The folders of the containers, and a torchrun that plays a job.
    image, shared, captures = (tmp_path / name for name in ("image", "ncclscope", "captures"))
    (image / "bin").mkdir(parents=True)
    (image / "lib").mkdir()
    shutil.copy(BIN / "ncclscope", image / "bin")
    shutil.copy(BIN / "libnccl-profiler-ncclscope.so", image / "lib")
    shared.mkdir()
    (tmp_path / "bin").mkdir()
    torchrun = tmp_path / "bin/torchrun"
    torchrun.write_text(f"#!/bin/sh\nprintf 'ranks 2\\nall_reduce 1MiB x3\\n' | {BIN}/fake-nccl play -\n")
    torchrun.chmod(0o755)
    places = {"/opt/ncclscope": str(image), "/ncclscope": str(shared), "/captures": str(captures)}
    mounts = {mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]}
    assert mounts == {"/ncclscope", "/captures", "/dev/shm"}

    def here(part: str) -> str:
        """A word or a script with the folders of this test in place of the containers'."""
        for path, place in places.items():
            part = part.replace(f" {path}/", f" {place}/").replace(f'"{path}/', f'"{place}/')
            part = place + part[len(path) :] if part.startswith(path + "/") else part
        return part

    def execute(command: list[str]) -> None:
        command = [here(part) for part in command]
        env = environment(CAPTURE="uid", JOB_COMPLETION_INDEX="0")
        env["PATH"] = f"{tmp_path}/bin:/usr/bin:/bin"
        subprocess.run(command, env=env, check=True, capture_output=True)

    execute(pod["initContainers"][0]["command"])
    train = pod["containers"][0]
    execute(train["command"] + train["args"])
    assert ncclscope.open(captures / "uid").report().completeness.recorded == 6
    stop = train["lifecycle"]["preStop"]["exec"]["command"]
    # It must not end processes of this machine.
    execute([part.replace("pkill -TERM -f torchrun; sleep 5; ", "") for part in stop])


@pytest.mark.skipif(find_spec("torch") is None, reason="needs torch: `make test-frameworks`")
def test_torchrun_with_a_restart(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", "--max-restarts=1"]
    recorded = [str(BIN / "ncclscope"), "run", "-o", "capture", "--"]
    command = [*recorded, *torchrun, "--monitor-interval=0.1", "rank.py"]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    assert len(list((tmp_path / "capture/restart-1").rglob("*.trace"))) == 2
    report = ncclscope.open(tmp_path / "capture").report()
    assert report.completeness.recorded == 20
    first = run("ncclscope", "report", tmp_path / "capture", "--attempt", "1")
    assert "20 of 20 announced calls recorded" in first


@pytest.mark.skipif(find_spec("ray") is None, reason="needs ray: `make test-frameworks`")
def test_ray_s_workers_record(tmp_path: Path) -> None:
    program = f"""
import importlib.util, os, sys
import ray
specification = importlib.util.spec_from_file_location("train", {str(ROOT / "examples/ray/train.py")!r})
example = importlib.util.module_from_spec(specification)
specification.loader.exec_module(example)
ray.init(num_cpus=2, include_dashboard=False, runtime_env=example.recorded({str(tmp_path / "capture")!r}))
@ray.remote(num_cpus=1)
def work(rank):
    os.environ["RANK"] = str(rank)
    exec({RANK!r}, {{}})
    return os.getpid()
print(len(set(ray.get([work.remote(rank) for rank in range(2)]))))
ray.shutdown()
"""
    env = environment(RAY_DEDUP_LOGS="0", RAY_USAGE_STATS_ENABLED="0")
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, env=env, text=True, capture_output=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    assert ncclscope.open(tmp_path / "capture").report().completeness.recorded == 20


@pytest.mark.skipif(shutil.which("mpirun") is None, reason="needs mpirun")
def test_mpirun(tmp_path: Path) -> None:
    (tmp_path / "rank.py").write_text(RANK)
    recorded = [str(BIN / "ncclscope"), "run", "-o", "capture", "--"]
    command = [*recorded, "mpirun", "-n", "2", sys.executable, "rank.py"]
    subprocess.run(command, cwd=tmp_path, env=environment(), check=True, capture_output=True)
    report = ncclscope.open(tmp_path / "capture").report()
    assert (report.completeness.recorded, len(report.ranks.rows)) == (20, 2)


def test_the_ci_workflow_s_steps(tmp_path: Path) -> None:
    """The first run makes the baseline, the second compares with it, and a hang fails and is told."""
    workflow = yaml.safe_load((ROOT / "examples/ci/ncclscope.yml").read_text())
    steps = workflow["jobs"]["communication"]["steps"]
    scripts = [step["run"] for step in steps if "run" in step and "pip install" not in step["run"]]
    clean, train, hang, compare, page, keep = scripts
    (tmp_path / "bin").mkdir()

    def shell(script: str, job: str, then: str = "") -> subprocess.CompletedProcess[str]:
        torchrun = tmp_path / "bin/torchrun"
        torchrun.write_text(f"#!/bin/sh\nprintf '{job}' | {BIN}/fake-nccl play -\n{then}\n")
        torchrun.chmod(0o755)
        env = environment()
        env["PATH"] = f"{tmp_path}/bin:{env['PATH']}"
        script = script.replace(" 600\n", " 5\n").replace(" 600 ", " 5 ")
        return subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=env, text=True, capture_output=True
        )

    healthy = "ranks 2\\nrate 100/s\\nall_reduce 1MiB x60\\n"
    for script in (clean, train, compare, page, keep):
        done = shell(script, healthy)
        assert done.returncode == 0, done.stderr
    assert (tmp_path / "report.html").exists() and (tmp_path / "baseline").is_dir()
    # The workspace is kept, and the cache has brought the baseline back.
    shutil.copytree(tmp_path / "baseline", tmp_path / "cache")
    assert shell(clean, healthy).returncode == 0
    shutil.copytree(tmp_path / "cache", tmp_path / "baseline")
    assert shell(train, healthy).returncode == 0
    compared = shell(compare, healthy)
    assert compared.returncode in (0, 2) and "No baseline" not in compared.stdout
    # A training that does not end: its step fails after its time, and the capture is there for `hang`.
    assert shell(clean, healthy).returncode == 0
    stuck = "ranks 2\\nall_reduce 1MiB x3\\nrank 1 hang\\nall_reduce 1MiB\\n"
    assert shell(train, stuck, then="sleep 600").returncode == 124
    told = shell(hang, healthy)
    assert told.returncode == 0 and "rank 1" in told.stdout.lower(), told.stdout
