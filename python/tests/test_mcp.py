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
