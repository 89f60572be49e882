"""A test client that checks responses with the models of the official Python SDK (``mcp``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from mcp_types import JSONRPCError, JSONRPCResponse
from mcp_types.methods import SERVER_RESULTS, validate_server_result

from mcp_bridge.testing.client import MCPClient


class CheckedClient(MCPClient):
    """
    An MCPClient that checks each response with the official models of its revision.

    Raises ``pydantic.ValidationError`` for a response that is not JSON-RPC, and for a result
    that does not match the method's schema.
    """

    def send(self, body: bytes, headers: Mapping[str, str | None] | None = None, **how: str) -> Any:
        """POST bytes, and check each JSON-RPC message in the response."""
        response = super().send(body, headers, **how)
        answers = self.messages()[-1] if self._body else []
        for answer in answers if isinstance(answers, list) else [answers]:
            (JSONRPCError if "error" in answer else JSONRPCResponse).model_validate(answer)
        return response

    def post(self, method: str, **params: Any) -> dict[str, Any]:
        """Return the result of one request. Also raises KeyError for an unknown method."""
        result = super().post(method, **params)
        version = self.revision.version
        models = SERVER_RESULTS[method, version]
        # Some methods may return a question too, whose model accepts nearly any result.
        asks = result.get("resultType") == "input_required"
        for model in get_args(models):
            if ("input_requests" in model.model_fields) is asks:
                models = model
        validate_server_result(method, version, result, surface={(method, version): models})
        return result
