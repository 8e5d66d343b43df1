"""Kind and model of the engine at an address."""

from typing import Final

from draftscope.servers.client import ServerClient, ServerError

METRICS: Final = {"llamacpp": "llamacpp", "vllm": "vllm", "sglang": "sglang"}
"""Engines whose `/metrics` count drafts, and the prefix of the names."""


def identify(client: ServerClient) -> tuple[str, str]:
    """Return the kind of engine (llamacpp, vllm, sglang or what it calls itself) and the id of its model."""
    answer = client.get("/v1/models")
    models = answer.get("data") if isinstance(answer, dict) else None
    if not isinstance(models, list) or not models or not isinstance(models[0], dict):
        raise ServerError(f"{client.url}/v1/models: lists no model; start the server with one.")
    return str(models[0].get("owned_by") or "")[:100], str(models[0].get("id") or "")[:500]
