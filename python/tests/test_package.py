"""The package as a whole: quick to import, typed, and as its manual says."""

from __future__ import annotations

import os
import pickle
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import BIN, ROOT, job, run

import ncclscope


def python(text: str, **more: object) -> str:
    done = subprocess.run(  # type: ignore[call-overload]
        [sys.executable, "-c", text], text=True, capture_output=True, **more
    )
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


def test_importing_it_loads_nothing_else() -> None:
    loaded = python(
        "import sys; before = set(sys.modules); import ncclscope; print(sorted(set(sys.modules) - before))"
    )
    assert loaded == "['ncclscope']\n"


def test_using_it_brings_no_dataframe_library() -> None:
    text = f"""
import sys, ncclscope
capture = ncclscope.open({str(job("ddp4"))!r})
capture.report()._repr_html_()
capture.calls.__arrow_c_stream__()
print([name for name in ("pandas", "polars", "pyarrow", "duckdb", "numpy") if name in sys.modules])
"""
    assert python(text) == "[]\n"


def test_every_public_name_is_there() -> None:
    for name in dir(ncclscope):
        assert getattr(ncclscope, name) is not None
    with pytest.raises(AttributeError, match="module 'ncclscope' has no attribute 'close'"):
        ncclscope.close  # type: ignore[attr-defined]
    assert f"ncclscope {ncclscope.__version__}\n" == run("ncclscope", "--version")


def test_no_capture_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ncclscope.CaptureError) as raised:
        ncclscope.open(tmp_path / "missing")
    assert str(raised.value) == (
        f"`{tmp_path}/missing`: expected a capture folder or a trace file, found nothing\n"
        "  hint: `ncclscope run -o DIR -- COMMAND` records one into DIR"
    )
    assert raised.value.hint == "`ncclscope run -o DIR -- COMMAND` records one into DIR"
    with pytest.raises(ValueError, match="found no trace file"):
        ncclscope.open(tmp_path)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.hint) == (str(raised.value), raised.value.hint)


def test_damage_is_no_error(tmp_path: Path) -> None:
    shutil.copytree(job("killed_228"), tmp_path / "damaged")
    trace = min((tmp_path / "damaged").rglob("*.trace*"))
    os.truncate(trace, trace.stat().st_size // 8)
    sound, damaged = ncclscope.open(job("killed_228")), ncclscope.open(tmp_path / "damaged")
    assert sound.problems == [] and len(damaged.problems) > 0
    assert 0 < len(damaged.calls) < len(sound.calls)
    assert damaged.problems == [
        f"{p.file}, {p.place}: expected {p.expected}, found {p.found}" for p in damaged.report().problems
    ]


def test_the_plugin_is_the_package_s_or_the_one_that_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NCCLSCOPE_PLUGIN", raising=False)
    own = Path(ncclscope.plugin_path())
    assert own.parent.parent == Path(ncclscope.__file__).parent and own.read_bytes()[:4] == b"\x7fELF"
    monkeypatch.setenv("NCCLSCOPE_PLUGIN", str(own))
    assert run("ncclscope", "plugin-path") == f"{own}\n" == ncclscope.plugin_path() + "\n"
    monkeypatch.setenv("NCCLSCOPE_PLUGIN", str(tmp_path / "none.so"))
    with pytest.raises(FileNotFoundError, match="hint: unset NCCLSCOPE_PLUGIN"):
        ncclscope.plugin_path()


def mypy(*sources: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """What mypy says of these, strictly, with the package that is tested."""
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(ROOT / ".tools/mypy")]
    environment = {**os.environ, "MYPYPATH": str(Path(ncclscope.__file__).parents[1])}
    return subprocess.run(
        [*command, "--no-error-summary", *sources], text=True, capture_output=True, cwd=cwd, env=environment
    )


def test_the_package_and_its_tests_are_typed() -> None:
    package = Path(ncclscope.__file__).parent
    assert (package / "py.typed").exists()
    done = mypy("--ignore-missing-imports", str(package), str(ROOT / "python/tests"), cwd=package.parent)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_user_s_program_is_checked(tmp_path: Path) -> None:
    text = """\
import ncclscope
report = ncclscope.open("x").report()
reveal_type(report.operations[0].time_us)
reveal_type(ncclscope.open("x").calls)
report.operation
ncclscope.record("x", mode="tarce")
"""
    (tmp_path / "user.py").write_text(text)
    done = mypy("user.py", cwd=tmp_path)
    assert re.findall(r":(\d+): (?:note|error): (.*)", done.stdout) == [
        ("3", 'Revealed type is "ncclscope.report._records.Statistics | None"'),
        ("4", 'Revealed type is "ncclscope._native.Table"'),
        ("5", '"Report" has no attribute "operation"  [attr-defined]'),
        (
            "6",
            'Argument "mode" to "record" has incompatible type "Literal[\'tarce\']"; expected '
            "\"Literal['profile', 'trace', 'full', 'callbacks'] | None\"  [arg-type]",
        ),
    ]


def test_the_manual_s_examples_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every Python block of docs/reference/python.md, in order, as one session.

    A block of text after one is what it prints.
    """
    for name in ("run-0412", "run-0413"):
        shutil.copytree(job("ddp4"), tmp_path / name)
    monkeypatch.chdir(tmp_path)
    for variable in [v for v in os.environ if v.startswith(("NCCL_", "NCCLSCOPE_")) and v != "NCCLSCOPE_BIN"]:
        monkeypatch.delenv(variable)
    manual = (ROOT / "docs/reference/python.md").read_text()
    blocks = re.findall(
        r"^```python\n(.*?)^```\n(?:\n```text\n(.*?)^```$)?", manual, re.MULTILINE | re.DOTALL
    )
    assert len(blocks) == manual.count("```python") > 8 and sum(
        bool(shown) for _, shown in blocks
    ) == manual.count("```text")
    (tmp_path / "session.py").write_text("".join(f"{block}\nprint('=====')\n" for block, _ in blocks))
    (tmp_path / "training.py").write_text(f"""\
import subprocess
def train():
    command = [{str(BIN / "fake-nccl")!r}, "play", "-"]
    job = "ranks 2\\nall_reduce 1KiB\\n"
    subprocess.run(command, input=job, text=True, check=True, stdout=subprocess.DEVNULL)
""")
    done = subprocess.run(
        [sys.executable, "session.py"],
        text=True,
        capture_output=True,
        env={**os.environ, "NCCLSCOPE_QUIET": "1"},
    )
    assert done.returncode == 0, done.stderr
    for (block, shown), printed in zip(blocks, done.stdout.split("=====\n")):
        if shown:
            assert printed == shown, block


def test_the_readme_s_commands_are_taken(tmp_path: Path) -> None:
    """Every command line of the README's first screen, and every file that it links to."""
    readme = (ROOT / "README.md").read_text()
    verbs = set(re.findall(r"\bncclscope ([a-z][a-z-]*)\b(?=[ `)\n])", readme))
    listed = set(re.findall(r"^  ([a-z-]+) ", run("ncclscope", "--help"), re.MULTILINE))
    assert {"run", "report", "hang", "diff", "doctor", "export"} <= verbs
    assert verbs - listed <= {"records", "matches"}  # in sentences
    for target in re.findall(r"\]\(([^)#]+)\)", readme):
        assert "://" in target or (ROOT / target).exists(), target
