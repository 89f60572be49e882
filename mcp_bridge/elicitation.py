"""Typed questions to the client's user during a call."""

from __future__ import annotations

import hashlib
from functools import lru_cache
from typing import TypeVar, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import SchemaValidator

from mcp_bridge.exceptions import Declined, InputRequired
from mcp_bridge.features import Context
from mcp_bridge.protocol.input_requests import FormElicitRequest
from mcp_bridge.protocol.jsonrpc import encode
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.forms import form_schema
from mcp_bridge.schemas.strictness import strict_validator

M = TypeVar("M", bound=BaseModel)


def elicit(context: Context, message: str, model: type[M]) -> M:
    """
    Return the user's answer to a question, as an instance of a flat model.

    Raises InputRequired until the client has answered: do not catch it; the tool then runs again
    from its beginning. Raises Declined if the user declined to answer, and TypeError for a model
    that a form cannot show or must not ask for (MCP, "Elicitation").
    """
    schema = form_schema(model)
    # The key is unique to this question, so that an answer cannot be used for another one. Asking
    # the same question twice in a call makes two questions.
    key = f"{model.__name__}-{hashlib.sha256(encode([message, schema])).hexdigest()[:16]}"
    times = context.scratch[elicit, key] = context.scratch.get((elicit, key), 0) + 1
    if times > 1:
        key += f"-{times}"
    response = context.input_responses.get(key)
    if response is not None:
        if response["action"] != "accept":
            raise Declined(
                f"The user was asked “{cut(message, 300)}” and did not answer: "
                f"{response['action']}. Do not call the tool again unless the user wants it.",
                response["action"],
            )
        try:
            return cast("M", _validator(model).validate_json(encode(response.get("content", {}))))
        except ValidationError as refused:
            errors = refused.errors(include_url=False, include_context=False)[:10]
            lines = (f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in errors)
            explained = cut("\n".join(lines), 1000)
            message += f"\n\nThe last answer was not accepted:\n{explained}"
    raise InputRequired({key: FormElicitRequest(message, schema)}, tool_state=context.tool_state)


@lru_cache(maxsize=256)
def _validator(model: type[BaseModel]) -> SchemaValidator:
    return strict_validator(TypeAdapter(model).core_schema)
