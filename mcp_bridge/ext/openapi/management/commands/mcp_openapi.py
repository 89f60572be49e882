from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from difflib import unified_diff
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from django.core.management.base import BaseCommand, CommandError, CommandParser

from mcp_bridge.ext.openapi.pinned import Cut
from mcp_bridge.ext.openapi.source import OpenAPISource, read_document
from mcp_bridge.features import ToolOptions
from mcp_bridge.management.base import named_source
from mcp_bridge.outbound.addresses import is_https_or_loopback
from mcp_bridge.protocol.text import cut
from mcp_bridge.schemas.openapi import nested
from mcp_bridge.schemas.walk import size_of
from mcp_bridge.sources.base import LeftOut, first_line
from mcp_bridge.sources.operations.mapping import MappedOperation, map_operation
from mcp_bridge.sources.operations.read import Document, Unmappable

_MAX_BYTES: Final = 64_000_000
_TIMEOUT: Final = 60
_MOST_FINDINGS: Final = 5
_MISSING: Final = '{} is not installed: run pip install "django-mcp-bridge[openapi]".'


class Command(BaseCommand):
    # Checks would report a document that does not exist yet.
    requires_system_checks = ()
    help = (
        "Pin the OpenAPI document of a source: extract the operations that the source serves, with "
        "everything they refer to, write them to the source's file, and show the tools and the "
        "changes."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("alias", help="The key of the source in MCP_BRIDGE['SOURCES'].")
        parser.add_argument(
            "--from",
            dest="address",
            metavar="FILE|URL",
            help="The service's document, JSON or YAML. Without it, the pinned file is shown.",
        )
        parser.add_argument(
            "--check",
            action="store_true",
            help="Write nothing; fail if the pinned file is out of date, or if one of its "
            "operations is not a tool. For CI.",
        )

    def handle(self, *, alias: str, address: str | None, check: bool, **options: object) -> None:
        source = named_source(alias)
        if not isinstance(source, OpenAPISource):
            raise CommandError(f"MCP_BRIDGE['SOURCES'][{alias!r}] is not an OpenAPISource.")
        file = Path(source.options["document"])
        try:
            before = read_document(file) if file.exists() else None
        except ValueError as why:
            raise CommandError(f"{first_line(why)}.") from why
        if address is None:
            if before is None:
                raise CommandError(f"Missing file {file}: write it with --from FILE or URL.")
            tools = self._show(source, before)
            is_same = True
        else:
            made = _cut(address, source)
            document = Document(made.data)
            text = json.dumps(made.data, sort_keys=True, indent=2, ensure_ascii=False) + "\n"
            tools = self._show(source, document)
            for each in (*made.missing[:_MOST_FINDINGS], *_findings(document)):
                self.stderr.write(self.style.WARNING(f"The document: {each}."))
            if before is not None:
                self._show_changes(source, before, tools)
            is_same = before is not None and file.read_text("utf-8") == text
            if not check and not is_same:
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text, "utf-8")
            outcome = "out of date" if check else "written"
            self.stdout.write(f"{file}: {'unchanged' if is_same else outcome}.")
        if check and not (is_same and not source.messages and tools):
            raise CommandError("The pinned document is not up to date or has problems: see above.")

    def _show(self, source: OpenAPISource, document: Document) -> dict[str, MappedOperation]:
        """Print the tools of a document and omitted operations; return the tools by name."""
        source.document = document
        source.tools()
        tools = source.mapped
        width = max(map(len, tools), default=0)
        for name, each in sorted(tools.items()):
            size = size_of(each.input_schema)
            self.stdout.write(f"{name:{width}}  {size:>6} bytes  {each.operation}")
            for note in each.notes:
                self.stdout.write(f"{'':{width}}    {note}")
        for message in source.messages:
            self.stderr.write(self.style.WARNING(f"{message.id}: {message.msg}"))
        for line in _security(document):
            self.stdout.write(line)
        return tools

    def _show_changes(
        self, source: OpenAPISource, before: Document, tools: Mapping[str, MappedOperation]
    ) -> None:
        """Print what has changed in the tools since the file was written."""
        old = {}
        # Everything chosen then, regardless of the current choice.
        for operation in before.operations():
            options = ToolOptions()
            with suppress(LeftOut):
                options = source.options_of(operation)
            with suppress(Unmappable):
                old[source.name_of(operation, options)] = map_operation(before, operation)
        for name in sorted({*old, *tools}):
            if name not in old:
                self.stdout.write(self.style.SUCCESS(f"+ {name}"))
            elif name not in tools:
                self.stdout.write(self.style.ERROR(f"- {name}"))
            else:
                lines = list(unified_diff(_lines(old[name]), _lines(tools[name]), n=1))[2:]
                if lines:
                    self.stdout.write(self.style.WARNING(f"~ {name}"))
                self.stdout.writelines(f"    {line}" for line in lines)


def _cut(address: str, source: OpenAPISource) -> Cut:
    """Return the chosen operations of the document at an address. Raises CommandError."""
    try:
        given = _parse(_read_bytes(address))
        return Cut(given, source.chooses)
    except RecursionError as why:
        raise CommandError(f"{address} is nested too deeply.") from why
    except ValueError as why:
        raise CommandError(f"{address}: {first_line(why)}.") from why


def _read_bytes(address: str) -> bytes:
    """Return the content of a file or URL. Raises ValueError and CommandError."""
    if not address.startswith(("http://", "https://")):
        try:
            return Path(address).read_bytes()
        except OSError as why:
            raise ValueError(f"it cannot be read: {why.strerror}") from why
    if not is_https_or_loopback(address):
        raise CommandError(f"{address} does not use TLS, so others could change it.")
    try:
        from mcp_bridge.outbound.client import Outbound, OutboundError
    except ImportError as why:
        raise CommandError(_MISSING.format("httpcore2")) from why
    parts = urlsplit(address)
    outbound = Outbound(f"{parts.scheme}://{parts.netloc}", timeout=_TIMEOUT, max_bytes=_MAX_BYTES)
    target = f"{parts.path or '/'}{'?' + parts.query if parts.query else ''}"
    try:
        received = outbound.send("GET", target, {"Accept": "*/*"}, None)
    except (OutboundError, UnicodeError) as why:
        raise ValueError(f"the server {first_line(why)}") from why
    if received.status != 200:
        where = received.headers.get("location", "")
        more = f" and redirects to {cut(where, 200)}" if where else ""
        raise ValueError(f"the server answered with {received.status}{more}")
    return received.body


def _parse(text: bytes) -> object:
    """Return the value of JSON or YAML; dates remain strings."""
    if text.lstrip()[:1] in (b"{", b"["):
        return json.loads(text)
    try:
        import yaml
    except ImportError as why:
        raise CommandError(_MISSING.format("PyYAML")) from why

    # The C loader, if available, is ten times as fast.
    base = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    resolvers = {
        first: [each for each in found if each[0] != "tag:yaml.org,2002:timestamp"]
        for first, found in base.yaml_implicit_resolvers.items()
    }
    loader = type("Loader", (base,), {"yaml_implicit_resolvers": resolvers})
    try:
        return yaml.load(text, loader)
    except yaml.YAMLError as why:
        raise ValueError(f"is not YAML: {first_line(why)}") from why


def _findings(document: Document) -> Iterator[str]:
    """Yield violations of OpenAPI's schema, as warnings: many documents that work have some."""
    try:
        from openapi_spec_validator import OpenAPIV30SpecValidator, OpenAPIV31SpecValidator
    except ImportError as why:
        raise CommandError(_MISSING.format("openapi-spec-validator")) from why
    is_old = str(document.data["openapi"]).startswith("3.0")
    validator = OpenAPIV30SpecValidator if is_old else OpenAPIV31SpecValidator
    data = json.loads(json.dumps(document.data))
    try:
        for number, error in enumerate(validator(data).iter_errors()):
            if number == _MOST_FINDINGS:
                yield "more parts violate the schema of OpenAPI"
                return
            yield f"{'/'.join(map(str, error.absolute_path))}: {cut(error.message, 200)}"
    except Exception as why:
        yield f"it cannot be checked: {cut(first_line(why), 200)}"


def _security(document: Document) -> Iterator[str]:
    """Yield the document's credentials, which the source's headers must provide."""
    schemes = nested(nested(document.data, "components"), "securitySchemes")
    for name in schemes:
        each = nested(schemes, name)
        match each.get("type"):
            case "http":
                where = f"Authorization: {str(each.get('scheme', '')).capitalize()} …"
            case "apiKey" if each.get("in") == "header":
                where = f"{each.get('name')}: …"
            case "oauth2" | "openIdConnect":
                where = "Authorization: Bearer …"
            case None:
                continue
            case _:
                where = f"no header, but {each.get('in', each.get('type'))}"
        yield f"The service accepts the credential {name} ({where})."


def _lines(mapped: MappedOperation) -> list[str]:
    """Return the method and path of a tool and its definition, as lines."""
    schema = json.dumps(mapped.input_schema, indent=1, ensure_ascii=False)
    lines = (str(mapped.operation), *mapped.description.splitlines(), *schema.splitlines())
    return [f"{line}\n" for line in lines]
