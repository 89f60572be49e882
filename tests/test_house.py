"""The layout of the package: its subpackages, their sizes, and their public names."""

from __future__ import annotations

import ast
import importlib
import io
import os
import shutil
import subprocess
import sys
import tokenize
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import Group
from django.dispatch import Signal

import mcp_bridge
from mcp_bridge.testing import MCPClient
from mcp_bridge.testing.serving import serve
from mcp_bridge.tokens.models import Token
from tests.support import apart
from tests.support.values import dumps

PACKAGE = Path(mcp_bridge.__file__).parent
place, database = apart.place, apart.database
FILES = sorted(PACKAGE.rglob("*.py"))

# A file is at the top level only if Django, pytest or a user names it.
TOP = {
    *(
        "__init__.py",
        "apps.py",
        "conf.py",
        "elicitation.py",
        "exceptions.py",
        "py.typed",
        "resources.py",
    ),
    *("signals.py", "urls.py", "urls_async.py", "views.py"),
    *("locale", "migrations", "static", "templates"),
}
# The limit of lines of code for each subpackage: a commit that raises one lowers another.
ROOMS: dict[str, int] = {
    "access": 764,
    "admin": 2_728,
    "calls": 1_151,
    "checks": 771,
    "concurrency": 323,
    "confirmation": 556,
    "ext": 2_911,
    "features": 790,
    "management": 1_362,
    "models": 366,
    "oauth": 1_113,
    "outbound": 347,
    "protocol": 991,
    "records": 977,
    "registry": 959,
    "remote": 2_380,
    "schemas": 2_946,
    "server": 1_092,
    "sources": 4_743,
    "tasks": 873,
    "templatetags": 37,
    "testing": 202,
    "tokens": 631,
    "top": 847,
    "transports": 962,
}
# The packages inside each subpackage.
INSIDE: dict[str, set[str]] = {
    "ext": {
        *("grpc", "grpc/management", "grpc/management/commands", "jwt", "lane"),
        *("openapi", "openapi/management", "openapi/management/commands"),
        *("skills", "skills/management", "skills/management/commands"),
    },
    "management": {"commands"},
    "oauth": {"management", "management/commands", "migrations"},
    "remote": {"management", "management/commands", "migrations"},
    "schemas": {"django"},
    "sources": {"admin", "in_process", "ninja", "operations", "rest_framework"},
    "tasks": {"management", "management/commands", "migrations"},
    "tokens": {"management", "management/commands", "migrations"},
}

# All lines except migrations. A feature that the package did not have may raise them by its size.
MOST_LINES = 43_491
MOST_LINES_OF_CORE = 39_569
MOST_IMPORTS = 12
MOST_ANY_IN_100_LINES = 5
# One tools/call over HTTP, whose record is left to the thread that writes them.
MOST_MODULES = 18
MOST_CHANGES = 40
# With a token, of a tool that is not read-only.
MOST_CHANGES_OF_A_WRITE = 45

PUBLIC = {
    "mcp_bridge": [
        "Context",
        "RejectError",
        "ToolError",
        "mcp_namespace",
        "mcp_prompt",
        "mcp_resource",
        "mcp_tool",
        "mcp_toolset",
    ],
    "mcp_bridge.access": ["AccessPolicy"],
    "mcp_bridge.access.throttling": ["CredentialRateThrottle", "ToolRateThrottle"],
    "mcp_bridge.ext.lane": ["MCPApplication"],
    "mcp_bridge.calls.media": ["MediaType"],
    "mcp_bridge.ext.jwt": ["JWTAuthentication"],
    "mcp_bridge.elicitation": ["elicit"],
    "mcp_bridge.exceptions": [
        *("ArgumentError", "CallRefused", "Cancelled", "Declined", "InputRequired"),
        *("InvalidArguments", "RejectError", "TimedOut", "ToolError", "UnsendableResult"),
    ],
    "mcp_bridge.models": [
        "Generation",
        "PendingCall",
        "Scope",
        "ToolCallRecord",
        "ToolSetting",
        "UsedState",
    ],
    "mcp_bridge.resources": ["ModelResource"],
    "mcp_bridge.protocol.content": [
        *("AudioContent", "CallToolResult", "ContentBlock", "EmbeddedResource", "ImageContent"),
        *("OtherContent", "PromptMessage", "ResourceLink", "TextContent"),
    ],
    "mcp_bridge.protocol.input_requests": [
        *("CreateMessageRequest", "FormElicitRequest", "InputRequest", "ListRootsRequest"),
        "URLElicitRequest",
    ],
    "mcp_bridge.remote.models": ["RemoteHeader", "RemoteServer", "RemoteTool"],
    "mcp_bridge.remote.relay": ["RemoteMessage"],
    "mcp_bridge.remote.urls": ["urlpatterns"],
    "mcp_bridge.remote.urls_async": ["urlpatterns"],
    "mcp_bridge.remote.views": ["AsyncRemoteView", "RemoteView"],
    "mcp_bridge.schemas": ["McpHeader"],
    "mcp_bridge.oauth": ["settings"],
    "mcp_bridge.oauth.authentication": ["TokenAuthentication"],
    "mcp_bridge.oauth.registration": ["ClientRegistration"],
    "mcp_bridge.schemas.django": ["Lookup"],
    "mcp_bridge.signals": [
        *("tool_call_decided", "tool_call_finished", "tool_call_held", "tool_call_refused"),
        "tool_call_started",
        "tools_changed",
    ],
    "mcp_bridge.sources.base": ["Source"],
    "mcp_bridge.sources.modernrpc": ["ModernRPCSource"],
    "mcp_bridge.sources.rest_framework": ["RESTFrameworkSource"],
    "mcp_bridge.testing": ["MCPClient", "MCPError", "text_of"],
    "mcp_bridge.tokens.authentication": ["TokenAuthentication"],
    "mcp_bridge.urls": ["urlpatterns"],
    "mcp_bridge.urls_async": ["urlpatterns"],
    "mcp_bridge.views": [
        "AsyncMCPView",
        "AsyncToolCallView",
        "AsyncToolDescriptionView",
        "AsyncToolListView",
        "BridgeView",
        "MCPView",
        "ResourceMetadataView",
        "ToolCallView",
        "ToolDescriptionView",
        "ToolListView",
    ],
}
# Every name that these define, or that their __all__ lists, is public.
WHOLLY_PUBLIC = [
    *(
        "mcp_bridge",
        "mcp_bridge.access",
        "mcp_bridge.access.throttling",
        "mcp_bridge.ext.lane",
    ),
    *(
        "mcp_bridge.exceptions",
        "mcp_bridge.models",
        "mcp_bridge.protocol.content",
        "mcp_bridge.signals",
    ),
    *("mcp_bridge.testing", "mcp_bridge.views"),
]


def packages_in(folder: Path) -> set[str]:
    """Return the folders with modules below a folder, at any depth."""
    found = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("*.py")}
    return found - {"."}


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_name(path): path for path in FILES}


def imported_in(text: str) -> set[str]:
    """Return the modules of the package that the text of a module imports, wherever in it."""
    imported = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            imported |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            for alias in node.names:
                submodule = f"{node.module}.{alias.name}"
                imported.add(submodule if submodule in MODULES else str(node.module))
    return imported & MODULES.keys()


def exported_by(name: str) -> list[str]:
    """Return the names in a module's __all__, or the public ones that it defines."""
    module = importlib.import_module(name)
    if hasattr(module, "__all__"):
        return sorted(module.__all__)
    return sorted(
        key
        for key, value in vars(module).items()
        if not key.startswith("_")
        and (isinstance(value, Signal) or isinstance(value, type) and value.__module__ == name)
        and not (isinstance(value, type) and issubclass(value, Signal))
    )


def code_lines(text: str) -> Iterator[list[tokenize.TokenInfo]]:
    """Yield the tokens of each line that holds code, and not only a comment or a docstring."""
    lines: dict[int, list[tokenize.TokenInfo]] = {}
    nothing = {
        *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
        *(tokenize.ENDMARKER, tokenize.ENCODING),
    }
    docstrings = {
        node.body[0].lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and ast.get_docstring(node, clean=False) is not None
    }
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type not in nothing and token.start[0] not in docstrings:
            lines.setdefault(token.start[0], []).append(token)
    yield from lines.values()


def modules_called(function: Callable[[], object]) -> list[str]:
    """Return the package's modules whose code runs, except the test client: one for each call."""
    modules: list[str] = []
    known = {str(path): name for name, path in MODULES.items() if "testing" not in path.parts}

    def profile(frame: Any, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename in known:
            modules.append(known[frame.f_code.co_filename])

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        function()
    finally:
        sys.setprofile(before)
    return modules


def room_of(path: Path) -> str:
    parts = path.relative_to(PACKAGE).parts
    return parts[0] if len(parts) > 1 else "top"


def test_top_level_files_and_packages_are_as_listed() -> None:
    found = {path.name for path in PACKAGE.iterdir() if path.name != "__pycache__"}
    assert found == TOP | ROOMS.keys() - {"top"}


def test_subpackages_are_as_listed() -> None:
    found = {name: packages_in(PACKAGE / name) for name in ROOMS if name != "top"}
    assert {name: inside for name, inside in found.items() if inside} == INSIDE
    assert packages_in(PACKAGE / "static") | packages_in(PACKAGE / "templates") == set()


def test_packages_do_not_exceed_their_line_limits() -> None:
    lines = Counter[str]()
    for path in FILES:
        if "migrations" not in path.parts:
            lines[room_of(path)] += sum(1 for _ in code_lines(path.read_text()))
    print(dict(sorted(lines.items())))
    assert {name: count for name, count in lines.items() if count > ROOMS[name]} == {}


@pytest.mark.alone
def test_core_does_not_import_ext(tmp_path: Path) -> None:
    """None of ext imports another one ([importlinter]), so that each can go alone."""
    for folder in ("mcp_bridge", "testproject", "tests", "docs", "benchmarks"):
        skipped = shutil.ignore_patterns("__pycache__", "node_modules", ".venv*")
        shutil.copytree(PACKAGE.parent / folder, tmp_path / folder, ignore=skipped)
    for name in (
        "setup.cfg",
        "pyproject.toml",
        "manage.py",
        "README.md",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
        "Makefile",
        "mkdocs.yml",
    ):
        shutil.copy(PACKAGE.parent / name, tmp_path / name)
    shutil.rmtree(tmp_path / "tests" / "ext")
    for path in (tmp_path / "mcp_bridge" / "ext").iterdir():
        if path.name != "__init__.py":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    settings = tmp_path / "testproject" / "settings.py"
    lines = settings.read_text().splitlines(keepends=True)
    settings.write_text("".join(line for line in lines if "mcp_bridge.ext." not in line))
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    # The direct lane is one of them.
    environment.pop("WAY", None)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=environment,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_package_and_core_have_bounded_lines() -> None:
    lines = Counter[str]()
    for path in FILES:
        if "migrations" not in path.parts:
            lines[room_of(path)] += len(path.read_text().splitlines())
    package = sum(lines.values())
    assert (package <= MOST_LINES, package - lines["ext"] <= MOST_LINES_OF_CORE) == (True, True), (
        f"{package} lines, {package - lines['ext']} without ext/"
    )


def test_each_folder_with_modules_is_a_package() -> None:
    folders = {path.parent for path in FILES}
    assert [each for each in sorted(folders) if not (each / "__init__.py").exists()] == []


def test_modules_import_at_most_12_others() -> None:
    counts = {name: len(imported_in(path.read_text()) - {name}) for name, path in MODULES.items()}
    assert {name: count for name, count in counts.items() if count > MOST_IMPORTS} == {}


def test_imports_are_found_anywhere_in_a_module() -> None:
    text = """
import mcp_bridge.conf, json
from mcp_bridge import mcp_tool
from mcp_bridge.protocol import pagination, Request, Reply
if TYPE_CHECKING:
    from mcp_bridge.server.server import MCPServer
def late():
    from mcp_bridge.views import MCPView
"""
    assert imported_in(text) == {
        "mcp_bridge",
        "mcp_bridge.conf",
        "mcp_bridge.protocol",
        "mcp_bridge.protocol.pagination",
        "mcp_bridge.server.server",
        "mcp_bridge.views",
    }


def test_fewer_than_5_percent_of_lines_use_any() -> None:
    lines = [line for path in FILES for line in code_lines(path.read_text())]
    said = sum(token.string == "Any" for line in lines for token in line)
    assert said * 100 < MOST_ANY_IN_100_LINES * len(lines), f"{said} in {len(lines)} lines"


@pytest.mark.parametrize(("module", "names"), PUBLIC.items(), ids=PUBLIC)
def test_public_names_can_be_imported(module: str, names: list[str]) -> None:
    imported = importlib.import_module(module)
    assert [name for name in names if not hasattr(imported, name)] == []


@pytest.mark.parametrize("module", WHOLLY_PUBLIC)
def test_public_names_are_pinned(module: str) -> None:
    assert exported_by(module) == PUBLIC[module]


def path_of(client: MCPClient, name: str) -> tuple[set[str], int]:
    """Return the modules that a call of a tool passes, and the number of changes between them."""
    client.call_tool(name, {"a": 1, "b": 2})
    message = client.message("tools/call", name=name, arguments={"a": 1, "b": 2})
    body, headers = dumps(message), client.mirrored(message)
    called = modules_called(lambda: client.send(body, headers))
    assert client.response.json()["result"]["structuredContent"] == {"result": 3}
    return set(called), sum(one != other for one, other in pairwise(called))


@pytest.mark.off_lane
# Requests, unlike most tests, do not have a transaction.
@pytest.mark.django_db(transaction=True, databases=["default", "apart"])
@pytest.mark.usefixtures("database")
def test_call_passes_few_modules(settings: Any, user: Any) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    settings.MCP_BRIDGE = {}
    serve(settings, add, read_only=True)
    modules, changes = path_of(MCPClient(user=user), "add")
    assert (len(modules) <= MOST_MODULES, changes <= MOST_CHANGES) == (True, True), (
        f"{len(modules)} modules, {changes} changes: {sorted(modules)}"
    )


@pytest.mark.off_lane
@pytest.mark.django_db(transaction=True)
def test_write_with_a_token_passes_few_modules(settings: Any, user: Any) -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers, and write down the sum."""
        return int(Group.objects.get_or_create(pk=a + b, defaults={"name": "sum"})[0].pk)

    settings.MCP_BRIDGE = {
        "AUTHENTICATION_CLASSES": ["mcp_bridge.tokens.authentication.TokenAuthentication"]
    }
    serve(settings, add)
    _, secret = Token.objects.issue(user=user, name="Laptop")
    client = MCPClient(token=secret)
    modules, changes = path_of(client, "add")
    assert changes <= MOST_CHANGES_OF_A_WRITE, f"{changes} changes of {sorted(modules)}"
