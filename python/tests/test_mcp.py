"""`ncclscope mcp`, as an agent speaks to it; with the real client of the Python SDK, if it is there.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import BIN, ROOT, run

DATA = ROOT / "data"


def ask(*messages: dict[str, Any], folder: Path = DATA) -> list[dict[str, Any]]:
    """The answers to messages, which are sent at once."""
    lines = "".join(json.dumps({"jsonrpc": "2.0", **message}) + "\n" for message in messages)
    done = subprocess.run(
        [BIN / "ncclscope", "mcp", folder], input=lines, text=True, capture_output=True, check=True
    )
    assert done.stderr == ""
    return [json.loads(line) for line in done.stdout.splitlines()]


def call(tool: str, folder: Path = DATA, **arguments: str) -> tuple[str, bool]:
    """The text of a tool's answer, and whether it is an error."""
    parameters = {"name": tool, "arguments": arguments}
    (answer,) = ask({"id": 1, "method": "tools/call", "params": parameters}, folder=folder)
    result = answer["result"]
    return result["content"][0]["text"], result["isError"]


def test_a_session() -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    first, tools = ask(
        {"id": 0, "method": "initialize", "params": hello},
        {"method": "notifications/initialized"},
        {"id": 1, "method": "tools/list"},
    )
    version = run("ncclscope", "--version").split()[1]
    assert first["result"]["serverInfo"] == {"name": "ncclscope", "version": version}
    names = [tool["name"] for tool in tools["result"]["tools"]]
    assert names == ["list", "report", "report_json", "hang", "diff", "history", "doctor", "explain"]
    assert all(tool["annotations"]["readOnlyHint"] for tool in tools["result"]["tools"])


@pytest.mark.parametrize("name", ["slow_plain", "slow_gpu", "slow_host", "ddp4", "killed_228"])
def test_tools_say_what_the_command_says(name: str) -> None:
    report, is_error = call("report", capture=name)
    assert not is_error and report == run("ncclscope", "report", DATA / name)
    verdict, is_error = call("report_json", capture=name, section="verdict")
    whole = json.loads(run("ncclscope", "report", "--json", DATA / name))
    assert not is_error and json.loads(verdict) == whole["verdict"]


# What is wrong with recorded jobs, as data/README.md says: the rank that the others wait for, and why.
HOST, GPU = "its host launches", "its GPU "
WRONG = {
    "slow_host": (0, HOST),
    "slow_gpu": (1, GPU),
    "ddp_slow_host": (1, HOST),
    "ddp_slow_gpu": (1, GPU),
    "ddp_late_host": (1, HOST),
    "ddp_busier_gpu": (1, GPU),
    "ddp8_late_host": (0, HOST),
    "ddp8_busier_gpu": (1, GPU),
    "decode_slow_gpu": (1, GPU),
    "decode_graphs_host": (0, HOST),
    "decode_graphs_gpu": (1, GPU),
    "eager_busier_gpu": (1, GPU),
    "fsdp1_late_host": (0, HOST),
    "fsdp2_slow_gpu": (1, GPU),
    "grid_slow_host": (1, HOST),
    "pipe_slow_gpu": (1, GPU),
    "deepspeed_late_host": (0, HOST),
    "megatron_late_host": (0, HOST),
    "megatron_late_gpu": (1, GPU),
    "shared_gpu_experts": (3, GPU),
    "shared_gpu_fsdp2": (1, GPU),
    "short_fsdp2_host": (0, HOST),
    "short_fsdp2_gpu": (1, GPU),
    "short_pipe_stage": (1, GPU),
    "short_decode_gpu": (1, GPU),
}
OTHERS = {
    "slow_link": "The network from rank 1 on vm to rank 0 on vm costs this job",
    "killed_228": "Rank 1 (pid 3139 on vm) died at",
    "slow_plain": "No rank is proved to hold this job up.",
    "decode_plain": "No rank holds this job up.",
    "fsdp2_traced": "Communication is no problem:",
}


def test_readme_s_questions_are_answered_right_on_thirty_recorded_jobs() -> None:
    """Which rank is slow, why, what does it cost, what to do: in one session, from the server alone."""
    names = [*WRONG, *OTHERS]
    assert len(names) == 30
    asked = [
        {"id": name, "method": "tools/call", "params": {"name": "report", "arguments": {"capture": name}}}
        for name in names
    ]
    answers = {answer["id"]: answer["result"] for answer in ask(*asked)}
    for name, answer in answers.items():
        assert not answer["isError"], name
        text = " ".join(answer["content"][0]["text"].split())
        if name in WRONG:
            rank, why = WRONG[name]
            first = text.split(". ")[0]
            assert text.startswith(f"Rank {rank} (GPU "), (name, text[:300])
            assert "costs this job" in first and why in text[:300], (name, text[:300])
            assert "What to do" in text, name
        else:
            assert text.startswith(OTHERS[name]), (name, text[:300])
    assert len(answers) == 30
    # Does it hang, and which rank is missing?
    assert call("hang", capture="killed_228")[0].startswith("Rank 1 is dead")
    assert call("hang", capture="slow_host")[0].startswith("No hang")


def test_other_tools() -> None:
    assert "slow_gpu" in call("diff", before="slow_plain", after="slow_gpu")[0]
    assert "hang" in call("hang", capture="ddp4")[0].lower()
    assert "straggler" in call("explain", word="straggler")[0].lower()
    assert call("explain", word="--help")[1]
    history, is_error = call("history", captures="slow_gpu\nslow_host")
    assert not is_error and "2 runs" in history


def test_what_can_t_be_answered_is_an_error_with_the_way_out(tmp_path: Path) -> None:
    text, is_error = call("report_json", capture="ddp4", section="stepps")
    assert is_error and "there is no section `stepps`; there are schema, verdict" in text
    (tmp_path / "link").symlink_to(DATA / "ddp4")
    for path in ("../..", "/etc", str(DATA / "ddp4"), "link"):
        text, is_error = call("report", folder=tmp_path, capture=path)
        assert is_error and "is not in the folder that is served" in text, path
    (answer,) = ask({"id": 7, "method": "tools/call", "params": {"name": "rm"}})
    assert answer["error"]["code"] == -32602
    done = subprocess.run([BIN / "ncclscope", "mcp"], input="{\n", text=True, capture_output=True, check=True)
    assert json.loads(done.stdout)["error"]["code"] == -32700


@pytest.mark.skipif(find_spec("mcp") is None, reason="needs mcp: `make test-frameworks`")
def test_the_real_client() -> None:
    from mcp import ClientSession, StdioServerParameters
    from mcp.client.stdio import stdio_client

    async def session() -> str:
        server = StdioServerParameters(command=str(BIN / "ncclscope"), args=["mcp", str(DATA)])
        async with stdio_client(server) as (read, write), ClientSession(read, write) as client:
            await client.initialize()
            assert len((await client.list_tools()).tools) == 8
            answer = await client.call_tool("report", {"capture": "slow_gpu"})
            return str(answer.content[0].text)

    assert "Rank 1" in asyncio.run(session())
