"""Make resources and prompts of the tools that their functions would be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from functools import partial
from typing import Any

from asgiref.sync import async_to_sync, iscoroutinefunction
from django.core.exceptions import ObjectDoesNotExist, PermissionDenied
from django.http import Http404
from django.template import Context, TemplateDoesNotExist, TemplateSyntaxError
from django.template.backends.django import Template
from django.template.loader import get_template

from mcp_bridge.calls.results import encoder
from mcp_bridge.calls.texts import choices_in, text_checker
from mcp_bridge.features import Completer, Feature, Tool, ToolCall, as_text
from mcp_bridge.features import Context as CallContext
from mcp_bridge.features.marks import PromptOptions, ResourceOptions
from mcp_bridge.features.prompts import Prompt
from mcp_bridge.features.resources import Resource
from mcp_bridge.features.uris import UriTemplate
from mcp_bridge.protocol import CallToolResult, ContentBlock, TextContent
from mcp_bridge.protocol.content import EmbeddedResource, PromptMessage
from mcp_bridge.protocol.errors import ResourceNotFoundError
from mcp_bridge.schemas import Outputs, Signature
from mcp_bridge.schemas.signatures import MISSING

# For values without a promise.
_encode = encoder(Outputs(MISSING))


def features_of(tool: Tool) -> list[Feature]:
    """
    Return the features that the options of a tool ask for: a resource, also with a tool; a prompt.

    Raises ValueError for parameters that a URI lacks, for a template that cannot be loaded, and for
    a completer without a parameter.
    """
    options = tool.options
    if isinstance(options, ResourceOptions):
        resource = _resource(tool, options)
        if not options.expose_as_tool:
            return [resource]
        return [resource, replace(tool, annotations={"readOnlyHint": True, **tool.annotations})]
    if isinstance(options, PromptOptions):
        return [_prompt(tool, options)]
    return [tool]


def _shared(tool: Tool, options: ResourceOptions | PromptOptions) -> dict[str, Any]:
    """Return the fields of the feature of another kind that is called as a tool is."""
    shared = {each.name: getattr(tool, each.name) for each in fields(Feature)}
    schema, found = tool.input_schema, dict[str, Completer]()
    known = schema.get("properties", {})
    for name in options.completers:
        if name not in known and schema.get("additionalProperties") is False:
            raise ValueError(f"it completes {name!r}, which is not an argument")
    for name, each in known.items():
        if name in options.completers:
            found[name] = _completer(options.completers[name])
        elif name in tool.completers:
            found[name] = tool.completers[name]
        elif choices := choices_in(each, schema.get("$defs", {})):
            found[name] = partial(_beginning, [as_text(choice) for choice in choices])
    own = {"check": text_checker(schema, tool.check), "headers": {}, "completers": found}
    return {**shared, **own}


def _beginning(choices: list[str], value: str, *others: object) -> list[str]:
    begun = value.casefold()
    return [each for each in choices if each.casefold().startswith(begun)]


def _completer(function: Callable[..., Any]) -> Completer:
    """Return a site's completer, called with what it takes: the value, earlier arguments."""
    signature = Signature.of(function)
    first, *others = [each.own_name for each in signature.parameters] or [""]
    if first in ("", "self", "cls"):
        raise ValueError("a completer takes the beginning of the value first, and not self")
    run = async_to_sync(function) if iscoroutinefunction(function) else function

    def complete(value: str, earlier: Mapping[str, str], context: CallContext) -> Any:
        given: dict[str, Any] = {first: value}
        given |= {name: earlier[name] for name in others if name in earlier}
        if signature.context:
            given[signature.context] = context
        return run(**given)

    return complete


def _resource(tool: Tool, options: ResourceOptions) -> Resource:
    uri = UriTemplate(options.uri)
    schema = tool.input_schema
    for name in schema.get("required", ()):
        if name not in uri.variables:
            raise ValueError(f"its parameter {name!r} is not a variable of {options.uri}")
    for name in uri.variables:
        if name not in schema["properties"] and schema.get("additionalProperties") is False:
            raise ValueError(f"the variable {name!r} of {options.uri} is not an argument")
    given, convert = options.mime_type, tool.convert_error

    def encode(value: Any) -> CallToolResult:
        found = value if isinstance(value, CallToolResult) else tool.encode(value)
        if found.is_error:
            return found
        if isinstance(value, bytes):
            kind = given or getattr(found.content[0], "mime_type", "application/octet-stream")
            return CallToolResult(content=[EmbeddedResource("", value, kind)])
        usual = given or ("application/json" if _is_json(value, found) else "text/plain")
        content = [_contents(each, given, usual) for each in found.content]
        return CallToolResult(content=content, meta=found.meta)

    def convert_error(exception: Exception, call: ToolCall) -> Exception:
        exception = convert(exception, call)
        hidden = Http404, ObjectDoesNotExist, PermissionDenied
        status = getattr(exception, "status_code", None) or getattr(exception, "status", None)
        is_hidden = isinstance(exception, hidden) or status in (401, 403, 404, 410)
        return ResourceNotFoundError("") if is_hidden else exception

    own: dict[str, Any] = {"encode": encode, "convert_error": convert_error}
    return Resource(**{**_shared(tool, options), **own}, uri=uri, mime_type=given, ttl=options.ttl)


def _is_json(value: object, result: CallToolResult) -> bool:
    """Return whether the text of a result is JSON; that of a date or a choice is not."""
    structured = result.structured
    if isinstance(value, str) or structured is None:
        return False
    is_string = isinstance(structured, bytes) and structured.startswith(b'{"result":"')
    return not is_string or getattr(result.content[0], "text", "").startswith("{")


def _contents(block: ContentBlock, given: str, usual: str) -> EmbeddedResource:
    """Return a block as contents of a resource, whose URI is set later."""
    if isinstance(block, TextContent) and isinstance(block.text, str):
        return EmbeddedResource("", block.text, usual)
    if isinstance(block, EmbeddedResource):
        return EmbeddedResource("", block.contents, given or block.mime_type)
    data, kind = getattr(block, "data", None), getattr(block, "mime_type", None)
    if data is None:
        raise ValueError(f"a {type(block).__name__} is not the contents of a resource")
    return EmbeddedResource("", data, given or kind)


def _prompt(tool: Tool, options: PromptOptions) -> Prompt:
    encode = _messages if options.template is None else _rendered(options.template)
    return Prompt(**{**_shared(tool, options), "encode": encode})


def _messages(value: Any) -> CallToolResult:
    """Return the messages of a text, of blocks, or of PromptMessages."""
    if isinstance(value, CallToolResult) and value.is_error:
        return value
    items = value.content if isinstance(value, CallToolResult) else value
    found = list[ContentBlock]()
    for each in items if isinstance(items, list | tuple) else [items]:
        found += [TextContent(each)] if isinstance(each, str) else _encode(each).content
    messages = [each if isinstance(each, PromptMessage) else PromptMessage(each) for each in found]
    return CallToolResult(content=messages)


def _rendered(name: str) -> Callable[[Any], CallToolResult]:
    """Return the encoder of a prompt whose function returns the context of a template."""
    try:
        template = get_template(name)
    except (TemplateDoesNotExist, TemplateSyntaxError) as why:
        raise ValueError(f"its template {name!r} cannot be loaded: {why}") from why
    if not isinstance(template, Template):
        raise ValueError(f"its template {name!r} is not one of Django's own templates")

    def encode(value: Any) -> CallToolResult:
        if isinstance(value, CallToolResult):
            # An interceptor returned it.
            return _messages(value)
        if not isinstance(value, dict | None):
            raise TypeError(f"a {type(value).__name__} is not the context of a template")
        text = template.template.render(Context(value or {}, autoescape=False))
        return CallToolResult(content=[PromptMessage(TextContent(text))])

    return encode
