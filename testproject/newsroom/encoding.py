"""How the results of procedures become JSON at /rpc."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from modernrpc.jsonrpc.backends.json import PythonJsonSerializer
from pydantic import BaseModel

from mcp_bridge.protocol.content import ContentBlock


class RpcJsonEncoder(DjangoJSONEncoder):
    """Django's encoder, which here also writes dataclasses, pydantic models and content blocks."""

    def default(self, o: Any) -> Any:
        if isinstance(o, ContentBlock):
            return json.loads(o.to_json())
        if isinstance(o, BaseModel):
            return o.model_dump(mode="json")
        if is_dataclass(o) and not isinstance(o, type):
            return {field.name: getattr(o, field.name) for field in fields(o)}
        return super().default(o)


class RpcJsonSerializer(PythonJsonSerializer):
    def __init__(self) -> None:
        super().__init__(dump_kwargs={"cls": RpcJsonEncoder})
