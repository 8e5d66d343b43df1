"""The tools for programs that speak the Model Context Protocol, over HTTP, through the protocol's own client."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

import pytest
from mcp import ClientSession, types
from mcp.client.streamable_http import streamable_http_client
from support.raster import MODEL, decoded

from engines.methods import METHODS
from traces import loads

ARGUMENTS = ("method", "prompt", "seed", "model", "settings", "preset")


def listed(server: str) -> dict[str, types.Tool]:
    async def ask(session: ClientSession) -> list[types.Tool]:
        return (await session.list_tools()).tools

    return {tool.name: tool for tool in in_session(server, ask)}


def called(server: str, name: str, arguments: Mapping[str, Any]) -> tuple[bool, str]:
    """Whether the call failed, and the text of the answer."""

    async def ask(session: ClientSession) -> types.CallToolResult:
        return await session.call_tool(name, dict(arguments))

    answer = in_session(server, ask)
    (content,) = answer.content
    assert isinstance(content, types.TextContent)
    return answer.isError, content.text


def in_session(server: str, ask: Any) -> Any:
    async def talk() -> Any:
        address = f"{server}/gradio_api/mcp/"
        async with streamable_http_client(address) as (read, write, _), ClientSession(read, write) as session:
            await session.initialize()
            return await ask(session)

    return asyncio.run(talk())


def test_every_tool_and_parameter_is_described(server: str) -> None:
    tools = listed(server)
    assert set(tools) == {"run", "summary", "methods", "validate"}
    for name, tool in tools.items():
        assert tool.description and len(tool.description.split()) > 8, name
    for name in ("run", "summary"):
        properties = tools[name].inputSchema["properties"]
        assert tuple(properties) == ARGUMENTS
        assert properties["method"]["enum"] == list(METHODS)
        assert tools[name].inputSchema["required"] == ["method"]
        assert all(len(said["description"].split()) > 3 for said in properties.values()), name


def test_a_tool_answers_with_json(server: str) -> None:
    failed, text = called(server, "summary", {"method": "scd", "prompt": "", "model": MODEL, "seed": 3})
    assert not failed
    assert json.loads(text)["forwards"] == decoded("scd", seed=3).summary.forwards
    failed, text = called(server, "run", {"method": "ar", "prompt": "", "model": MODEL})
    assert not failed and loads(text.encode()).output == decoded("ar").output
    failed, text = called(server, "methods", {"method": "psd"})
    assert not failed and "Spiffy" in json.loads(text)["methods"]["psd"]["presets"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"method": "ar", "model": MODEL, "prompt": "a boot"}, "prompt: toy-raster draws without a prompt"),
        ({"method": "scd", "model": MODEL, "settings": {"width": 3}}, "width: no such setting; there are"),
        ({"method": "ar", "model": MODEL, "seed": -1}, "seed: -1 is not allowed; use a whole number"),
    ],
)
def test_a_tool_says_what_was_wrong(arguments: dict[str, Any], told: str, server: str) -> None:
    failed, text = called(server, "summary", arguments)
    assert failed and told in text
