"""What the hints of all these types are made with."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pydantic import ConfigDict, GetCoreSchemaHandler
from pydantic_core import CoreSchema, core_schema

from mcp_bridge.schemas.inputs import CONFIG


def _untitled(schema: dict[str, Any]) -> None:
    schema.pop("title", None)


# For what is made of a class of Django's, whose name tells a model nothing.
SHAPE: Final = ConfigDict(**{**CONFIG, "json_schema_extra": _untitled})


class After:
    """Metadata of a hint: what a value goes through when pydantic has checked it."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        return core_schema.no_info_after_validator_function(self.function, handler(source))
