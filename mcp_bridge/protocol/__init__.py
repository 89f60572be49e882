"""MCP as data, with the standard library only: bytes and headers in, a reply out (``answer``)."""

from __future__ import annotations

from mcp_bridge.protocol.content import CallToolResult as CallToolResult
from mcp_bridge.protocol.content import ContentBlock as ContentBlock
from mcp_bridge.protocol.content import TextContent as TextContent
from mcp_bridge.protocol.errors import BusyError as BusyError
from mcp_bridge.protocol.errors import ForbiddenError as ForbiddenError
from mcp_bridge.protocol.errors import HeaderMismatchError as HeaderMismatchError
from mcp_bridge.protocol.errors import InsufficientScopeError as InsufficientScopeError
from mcp_bridge.protocol.errors import InternalError as InternalError
from mcp_bridge.protocol.errors import InvalidParamsError as InvalidParamsError
from mcp_bridge.protocol.errors import InvalidRequestError as InvalidRequestError
from mcp_bridge.protocol.errors import MethodNotFoundError as MethodNotFoundError
from mcp_bridge.protocol.errors import (
    MissingRequiredClientCapabilityError as MissingRequiredClientCapabilityError,
)
from mcp_bridge.protocol.errors import NotAcceptableError as NotAcceptableError
from mcp_bridge.protocol.errors import ParseError as ParseError
from mcp_bridge.protocol.errors import PayloadTooLargeError as PayloadTooLargeError
from mcp_bridge.protocol.errors import ProtocolError as ProtocolError
from mcp_bridge.protocol.errors import TooManyRequestsError as TooManyRequestsError
from mcp_bridge.protocol.errors import UnauthorizedError as UnauthorizedError
from mcp_bridge.protocol.errors import UnavailableError as UnavailableError
from mcp_bridge.protocol.errors import UnknownToolError as UnknownToolError
from mcp_bridge.protocol.errors import UnsupportedMediaTypeError as UnsupportedMediaTypeError
from mcp_bridge.protocol.errors import (
    UnsupportedProtocolVersionError as UnsupportedProtocolVersionError,
)
from mcp_bridge.protocol.exchange import Reply as Reply
from mcp_bridge.protocol.exchange import Result as Result
from mcp_bridge.protocol.exchange import answer as answer
from mcp_bridge.protocol.exchange import internal_error as internal_error
from mcp_bridge.protocol.exchange import refuse as refuse
from mcp_bridge.protocol.headers import Headers as Headers
from mcp_bridge.protocol.input_requests import Answers as Answers
from mcp_bridge.protocol.input_requests import InputRequiredResult as InputRequiredResult
from mcp_bridge.protocol.jsonrpc import JSONObject as JSONObject
from mcp_bridge.protocol.jsonrpc import JSONSchema as JSONSchema
from mcp_bridge.protocol.requests import Request as Request
from mcp_bridge.protocol.revisions import LATEST as LATEST
from mcp_bridge.protocol.revisions import LATEST_LEGACY as LATEST_LEGACY
from mcp_bridge.protocol.revisions import REVISIONS as REVISIONS
from mcp_bridge.protocol.revisions import SUPPORTED_VERSIONS as SUPPORTED_VERSIONS
from mcp_bridge.protocol.revisions import Revision as Revision
from mcp_bridge.protocol.text import without_unprintable as without_unprintable
