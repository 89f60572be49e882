"""The code in docs/ is served and called unchanged, and the links have targets."""

from __future__ import annotations

import ast
import json
import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from django.apps import apps
from django.contrib import admin
from django.contrib.auth.models import AnonymousUser, Group, Permission, User
from django.core import checks
from django.core.cache import cache
from django.urls import path
from modernrpc.server import RpcServer

from mcp_bridge import ToolError, mcp_tool, signals
from mcp_bridge.access.throttling import ToolRateThrottle
from mcp_bridge.conf import DOCUMENTATION
from mcp_bridge.exceptions import Cancelled
from mcp_bridge.models import PendingCall, ToolCallRecord
from mcp_bridge.protocol import UnknownToolError
from mcp_bridge.testing import MCPClient, MCPError, text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import route, serve
from tests.support.serving import set_tool
from tests.support.toolsets import serve_toolsets

ROOT = Path(__file__).resolve().parent.parent
PAGES = {path.relative_to(ROOT).as_posix(): path.read_text() for path in ROOT.glob("docs/**/*.md")}
# These are also read on the package index and on GitHub, so their links are absolute.
OUTSIDE = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")
PAGES |= {name: (ROOT / name).read_text() for name in OUTSIDE}
PAGE = re.compile(r"docs/[\w/-]+\.md")
ADDRESS = re.compile(rf"{re.escape(DOCUMENTATION)}(?P<page>[\w/-]*)(?:#(?P<anchor>[\w-]+))?")
BLOCK = re.compile(r"^ *```(?P<kind>\w*)\n(?P<text>.*?)^ *```$", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\((?!https?:)(?P<page>[\w./-]*)(?:#(?P<anchor>[\w-]+))?\)")
FORM = {"elicitation": {}}
TEMPLATE = "Write a headline on {{ topic }}, of at most {{ words }} words."


def block(page: str, part: str, kind: str = "python") -> str:
    """Return the text of the only block of that kind on a page of docs/ with this part in it."""
    blocks = [each for each in BLOCK.finditer(PAGES[f"docs/{page}.md"]) if each["kind"] == kind]
    (found,) = [each["text"] for each in blocks if part in each["text"]]
    return found


def run(page: str, part: str) -> dict[str, Any]:
    """Return the names that a block of Python defines, run as a separate module."""
    names: dict[str, Any] = {"__name__": f"docs.{page}"}
    code = compile(block(page, part), f"docs/{page}.md", "exec", dont_inherit=True)
    exec(code, names)
    return names


def quotes(page: str, part: str, told: str) -> bool:
    """Return whether a page quotes a model's text, except for line breaks, host and numbers."""
    varying = re.compile(r"\s+|https?://[\w.]+|\d+")
    return bool(varying.sub(" ", block(page, part, kind="")).strip() == varying.sub(" ", told))


def offer(settings: Any, *procedures: Callable[..., Any]) -> None:
    """Serve procedures that are marked already, beside the admin."""
    server = RpcServer(register_system_procedures=False)
    for procedure in procedures:
        server.register_procedure(procedure)
    route(settings, path("rpc", server.view), path("admin/", admin.site.urls))


def rounds(client: CheckedClient, name: str, arguments: Any, *answers: Any) -> dict[str, Any]:
    """Call, and answer all that is asked in one round after the other; returns the last result."""
    params = {"name": name, "arguments": arguments}
    result = client.post("tools/call", **params)
    for answer in answers:
        responses = dict(zip(result["inputRequests"], answer, strict=True))
        sent = {"inputResponses": responses, "requestState": result["requestState"]}
        result = client.post("tools/call", **params, **sent)
    return result


def accepted(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


def test_every_block_is_valid_code_of_its_kind() -> None:
    for page, text in PAGES.items():
        for each in BLOCK.finditer(text):
            if each["kind"] == "python":
                code = compile(dedent(each["text"]), page, "exec", ast.PyCF_ONLY_AST)
                # A line that ends in a comma is a tuple.
                lines = [line.value for line in code.body if isinstance(line, ast.Expr)]
                assert not any(isinstance(line, ast.Tuple) for line in lines), page
            elif each["kind"] == "json":
                json.loads(each["text"])


SETTINGS_BLOCKS = [
    (page, dedent(each["text"]))
    for page, text in PAGES.items()
    for each in BLOCK.finditer(text)
    if each["kind"] == "python" and re.search("^ *MCP_BRIDGE ", each["text"], re.MULTILINE)
]


@pytest.mark.parametrize(
    ("page", "text"),
    SETTINGS_BLOCKS,
    ids=[f"{page} {n}" for n, (page, _) in enumerate(SETTINGS_BLOCKS)],
)
def test_block_of_settings_is_self_contained(
    page: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    # A package that is not installed here.
    cors = ModuleType("corsheaders.defaults")
    vars(cors)["default_headers"] = ("accept",)
    monkeypatch.setitem(sys.modules, "corsheaders.defaults", cors)
    monkeypatch.setitem(sys.modules, "corsheaders", ModuleType("corsheaders"))
    # The settings that startproject writes.
    (tmp_path / "oidc.pem").touch()
    names: dict[str, Any] = {"BASE_DIR": tmp_path, "INSTALLED_APPS": [], "MIDDLEWARE": []}
    names |= {"__name__": "settings", "__file__": str(tmp_path / "settings.py")}
    exec(compile(text, page, "exec", dont_inherit=True), names)


def test_every_link_has_a_target() -> None:
    lost = []
    for page, text in PAGES.items():
        for link in LINK.finditer(text):
            target = (ROOT / page).parent / link["page"] if link["page"] else ROOT / page
            known = {None, *anchors(target)} if target.is_file() else ()
            if link["anchor"] not in known:
                lost.append((page, link[0]))
    assert lost == []


def pages_at(text: str) -> list[tuple[Path, str | None]]:
    """Return the page and the anchor of each address of the documentation in a text."""
    found = []
    for each in ADDRESS.finditer(text):
        page = ROOT / "docs" / each["page"].rstrip("/")
        folder = [page / "README.md", page / "index.md"]
        known = [path for path in (page.with_suffix(".md"), *folder) if path.is_file()]
        assert known, each[0]
        found.append((known[0], each["anchor"]))
    return found


@pytest.mark.parametrize("page", OUTSIDE)
def test_documentation_addresses_lead_to_pages(page: str) -> None:
    for target, anchor in pages_at(PAGES[page]):
        assert not anchor or anchor in anchors(target), (target, anchor)


def test_readme_has_at_most_100_lines() -> None:
    assert len(PAGES["README.md"].splitlines()) <= 100


def test_hints_lead_to_the_public_documentation() -> None:
    assert f"Documentation = {DOCUMENTATION}\n" in (ROOT / "setup.cfg").read_text()
    assert f"site_url: {DOCUMENTATION}\n" in (ROOT / "mkdocs.yml").read_text()
    found = []
    for file in (ROOT / "mcp_bridge").rglob("*.py"):
        tree = ast.parse(file.read_text())
        said = [each.value for each in ast.walk(tree) if isinstance(each, ast.Constant)]
        texts = [each for each in said if isinstance(each, str)]
        documented = [ast.get_docstring(each, clean=False) for each in documenting(tree)]
        assert not [each for each in texts if PAGE.search(each) and each not in documented], file
        written = re.sub(r"\{DOCUMENTATION\}|%s(?=[a-z-]+/)", DOCUMENTATION, file.read_text())
        found += pages_at(written) if file.name != "conf.py" else []
    assert len(found) > 5
    for target, anchor in found:
        assert not anchor or anchor in anchors(target), (target, anchor)
    for template in (ROOT / "mcp_bridge").rglob("*.html"):
        assert not PAGE.search(template.read_text()), template


def documenting(tree: ast.Module) -> list[Any]:
    """Return the nodes that may have a docstring."""
    kinds = ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    return [each for each in ast.walk(tree) if isinstance(each, kinds)]


def anchors(page: Path) -> set[str]:
    """Return the anchors of the headings of a page: ``{#anchor}``, or as GitHub makes them."""
    if page.suffix != ".md":
        return set()
    headings = re.findall(r"^#+ (.*)$", BLOCK.sub("", page.read_text()), re.MULTILINE)
    given = [re.search(r"\{#([\w-]+)\}$", each) for each in headings]
    return {
        anchor[1] if anchor else re.sub(r"[^\w -]", "", each.lower()).replace(" ", "-")
        for each, anchor in zip(headings, given, strict=True)
    }


def test_access_checks_predicate_and_object(user: Any, settings: Any) -> None:
    server = RpcServer(register_system_procedures=False)
    code = compile(
        block("access/permissions", "def is_staff"),
        "docs/access/permissions.md",
        "exec",
        dont_inherit=True,
    )
    exec(code, {"__name__": "docs.access", "server": server})
    names = run("access/permissions", "def is_member")
    for name in ("rename_group", "list_groups"):
        server.register_procedure(names[name])
    route(settings, path("rpc", server.view))
    user.user_permissions.add(
        *Permission.objects.filter(codename__in=["view_article", "publish_article"])
    )
    client = CheckedClient(user=user)
    with pytest.raises(MCPError, match="Unknown tool: publish"):
        client.call_tool("publish", {"article": 1})
    user.is_staff = True
    user.save()
    assert not client.call_tool("publish", {"article": 1})["isError"]
    user.groups.add(Group.objects.create(name="press"))
    Group.objects.create(name="desk")
    assert client.call_tool("list_groups")["structuredContent"] == {"result": ["press"]}
    refused = client.call_tool("rename_group", {"group": "desk", "name": "x"})
    assert (refused["isError"], text_of(refused)) == (True, "You are not a member of desk.")
    client.call_tool("rename_group", {"group": "press", "name": "x"})
    assert set(Group.objects.values_list("name", flat=True)) == {"desk", "x"}


def test_resources_are_read_and_completed(settings: Any, user: Any) -> None:
    names = run("tools/resources", "def teams")
    offer(settings, names["teams"], names["team"])
    run("tools/resources", "read_resource")
    Group.objects.create(name="sports")
    reader = CheckedClient(user=User.objects.get(username="ann"))
    assert json.loads(reader.read_resource("teams://all")[0]["text"]) == ["sport", "sports"]
    argument = {"name": "name", "value": "sport"}
    ref = {"type": "ref/resource", "uri": "teams://{name}"}
    found = reader.post("completion/complete", ref=ref, argument=argument)
    assert found["completion"]["values"] == ["sport", "sports"]
    for client, uri in ((reader, "teams://none"), (CheckedClient(user=user), "teams://sport")):
        with pytest.raises(MCPError, match="Resource not found"):
            client.read_resource(uri)


def test_model_resource_of_the_page_is_served(settings: Any, user: Any) -> None:
    name = "docs.model_resource"
    sys.modules[name] = module = ModuleType(name)
    module.groups = run("tools/resources", "ModelResource")["groups"]  # type: ignore[attr-defined]
    module.groups.__module__ = name
    source = {"BACKEND": "mcp_bridge.sources.functions.FunctionSource"}
    source["OPTIONS"] = {"modules": [name]}  # type: ignore[assignment]
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SOURCES": {"functions": source}}
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    user.groups.add(Group.objects.create(name="press"))
    Group.objects.create(name="others")
    client = MCPClient(user=user)
    listed = json.loads(client.read_resource("groups://all")[0]["text"])
    assert listed == [{"uri": "groups://press", "title": "press"}]
    assert json.loads(client.read_resource("groups://press")[0]["text"])["name"] == "press"
    with pytest.raises(MCPError, match="Resource not found"):
        client.read_resource("groups://others")


def test_skill_of_the_page_is_served(
    settings: Any, user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "mcp_skills" / "edit-an-article"
    (folder / "references").mkdir(parents=True)
    text = block("tools/skills", "# Edit an article", "markdown")
    (folder / "SKILL.md").write_text(text)
    (folder / "references/house-style.md").write_text("Be brief.")
    monkeypatch.setattr(apps.get_app_config("newsroom"), "path", str(tmp_path))
    source = {"skills": {"BACKEND": "mcp_bridge.ext.skills.source.SkillSource"}}
    skills = {"edit-an-article": {"permissions": "auth.view_group"}}
    settings.MCP_BRIDGE = {**settings.MCP_BRIDGE, "SOURCES": source, "SKILLS": skills}
    user.user_permissions.add(Permission.objects.get(codename="view_group"))
    client = MCPClient(user=user)
    (entry,) = client.post("skills/list")["skills"]
    for each in entry["resources"]:
        assert client.read_resource(each["uri"])


def test_prompts_are_made_of_messages_and_templates(settings: Any, user: Any) -> None:
    loaders = [("django.template.loaders.locmem.Loader", {"newsroom/headline.md": TEMPLATE})]
    backend = "django.template.backends.django.DjangoTemplates"
    settings.TEMPLATES = [{**settings.TEMPLATES[0], "APP_DIRS": False, "BACKEND": backend}]
    settings.TEMPLATES[0]["OPTIONS"] = {**settings.TEMPLATES[0]["OPTIONS"], "loaders": loaders}
    names = run("tools/prompts", "def review") | run("tools/prompts", "def headline")
    offer(settings, names["review"], names["headline"])
    exec(block("tools/prompts", "get_prompt"), {"user": user})
    (message,) = CheckedClient(user=user).get_prompt("headline", topic="Q&A")
    assert message["content"]["text"] == "Write a headline on Q&A, of at most 8 words."


def test_confirmation_deletes_after_approval(user: Any, settings: Any) -> None:
    user.user_permissions.add(Permission.objects.get(codename="delete_article"))
    offer(settings, run("access/confirmation", "def delete_article")["delete_article"])
    form, article = CheckedClient(user=user, capabilities=FORM), {"slug": "a"}
    (request,) = rounds(form, "delete_article", article)["inputRequests"].values()
    assert "May delete_article" in request["params"]["message"]
    assert not rounds(form, "delete_article", article, [accepted(confirm=True)])["isError"]
    silent = CheckedClient(user=user)
    told = text_of(silent.call_tool("delete_article", article))
    assert quotes("access/confirmation", "The call is pending at", told)
    held = PendingCall.objects.get()
    held.decide(using="default", status="refused", reason="It is to be printed on Sunday.")
    told = text_of(silent.call_tool("delete_article", article))
    assert quotes("access/confirmation", "a person refused", told)


def test_confirmation_names_the_command_without_the_admin(user: Any, settings: Any) -> None:
    procedure = mcp_tool(confirm=True)(
        run("access/confirmation", "def delete_article")["delete_article"]
    )
    offer(settings, procedure)
    del settings.ROOT_URLCONF.urlpatterns[1]
    told = text_of(CheckedClient(user=user).call_tool("delete_article", {"slug": "a"}))
    assert quotes("access/confirmation", "mcp_pending approve 7", told)


def test_confirmation_refuses_before_asking(user: Any, settings: Any) -> None:
    offer(settings, run("access/confirmation", "def dissolve")["dissolve"])
    group = Group.objects.create(name="press")
    client, press = CheckedClient(user=user, capabilities=FORM), {"group": "press"}
    refused = text_of(rounds(client, "dissolve", press))
    assert refused == "Only members of press can dissolve it."
    user.groups.add(group)
    assert not rounds(client, "dissolve", press, [accepted(confirm=True)])["isError"]
    assert not Group.objects.exists()


def test_confirmation_books_the_answered_seats(user: Any, settings: Any) -> None:
    offer(settings, run("access/elicitation", "def book")["book"])
    client, train = CheckedClient(user=user, capabilities=FORM), {"train": "IC 1"}
    assert text_of(rounds(client, "book", train, [accepted(seats=2)])) == "2 seats on IC 1."
    again = rounds(client, "book", train, [accepted(seats=9)])
    assert "seats: " in json.dumps(again["inputRequests"])
    declined = rounds(client, "book", train, [{"action": "decline"}])
    assert declined["isError"]
    with pytest.raises(MCPError, match="-32021"):
        CheckedClient(user=user).call_tool("book", train)


def test_confirmation_signs_a_contract(user: Any, settings: Any) -> None:
    offer(settings, run("access/elicitation", "def sign")["sign"])
    client = CheckedClient(user=user, capabilities={"elicitation": {"url": {}}, "sampling": {}})
    content = {"type": "text", "text": "All is well."}
    summary = {"role": "assistant", "model": "some", "content": content}
    said = rounds(client, "sign", {"contract": 7}, [{"action": "accept"}, summary])
    assert text_of(said) == "All is well. See https://example.com/sign/7."
    said = rounds(client, "sign", {"contract": 7}, [{"action": "decline"}, summary])
    assert (said["isError"], text_of(said)) == (True, "The contract was not signed.")
    with pytest.raises(MCPError, match="-32021"):
        CheckedClient(user=user, capabilities=FORM).call_tool("sign", {"contract": 7})


def test_extending_requests_a_size_and_roots(user: Any, settings: Any) -> None:
    order, projects = (
        run("reference/extending", "def order")["order"],
        run("reference/extending", "def projects"),
    )
    offer(settings, order, projects["projects"])
    client = CheckedClient(user=user, capabilities={**FORM, "roots": {}})
    soup = {"dish": "soup"}
    assert text_of(rounds(client, "order", soup, [accepted(size="small")])) == "One small soup."
    assert text_of(rounds(client, "order", soup, [{"action": "cancel"}])) == "Nothing was ordered."
    roots = {"roots": [{"uri": "file:///home/ada"}]}
    said = rounds(client, "projects", {}, [roots])
    assert said["structuredContent"] == {"result": ["file:///home/ada"]}


def test_extending_receives_every_signal(
    user: Any, settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    serve(settings, look, read_only=True)
    client = CheckedClient(user=user)
    set_tool("look")
    with caplog.at_level(logging.INFO, "mysite.mcp"):
        names = run("reference/extending", "@receiver")
        client.call_tool("look", {"word": "a"})
        client.call_tool("look", {"word": "no"})
        client.call_tool("look")
        set_tool("look", note="changed")
    disconnect(names)
    told = [each.getMessage() for each in caplog.records if each.name == "mysite.mcp"]
    begun = "look begins, called by ada"
    after = [re.sub(r"\d+\.\d+ s", "… s", each) for each in told]
    assert after[:5] == [
        begun,
        "look succeeded  after … s",
        begun,
        "look failed tool_error after … s",
        "invalid for 127.0.0.1: look",
    ]
    assert set(after[5:]) == {"An administrator has changed a tool's settings"}


def test_extending_masks_keeps_and_rejects(
    user: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = ModuleType("library.interceptors")
    vars(module).update(run("reference/extending", "class HideCards"))
    for each in ("library", "library.interceptors"):
        monkeypatch.setitem(sys.modules, each, module)
    configured = block("reference/extending", '"INTERCEPTORS"')
    namespace: dict[str, Any] = {}
    exec(configured, namespace)
    settings.MCP_BRIDGE = namespace["MCP_BRIDGE"]
    runs: list[str] = []

    def count_books(title: str) -> str:
        """Count books."""
        runs.append(title)
        return "CONFIDENTIAL" if title == "plans" else title

    serve(settings, count_books)
    client = CheckedClient(user=user)
    for _ in range(2):
        said = client.call_tool("count_books", {"title": "card 4111 1111"})
        assert text_of(said) == "card **** ****"
    with pytest.raises(MCPError, match="The result is confidential"):
        client.call_tool("count_books", {"title": "plans"})
    assert runs == ["card **** ****", "plans"]
    client.headers["User-Agent"] = "BadBot/1"
    with pytest.raises(MCPError, match="not welcome"):
        client.list_tools()


def test_progress_imports_films_and_cleans_up(user: Any, settings: Any) -> None:
    made: list[str] = []
    film = SimpleNamespace(objects=SimpleNamespace(create=lambda title: made.append(title)))
    names = run("tools/progress", "def import_films")
    names["import_films"].__globals__["Film"] = film
    offer(settings, names["import_films"])
    tested = {"MCPClient": CheckedClient, "user": user}
    exec(block("tools/progress", "reports = []"), tested)
    assert made == ["Alien"]
    done: list[str] = []

    def send(page: int) -> None:
        done.append(f"sent {page}")
        raise Cancelled

    def progress(*given: Any) -> None:
        done.append(f"reported {given}")

    cleaning = {"pages": [1], "send": send, "Cancelled": Cancelled}
    cleaning |= {"context": SimpleNamespace(progress=progress)}
    cleaning["remove_files"] = lambda: done.append("removed")
    with pytest.raises(Cancelled):
        exec(dedent(block("tools/progress", "except Cancelled:")), cleaning)
    assert done == ["reported (0, 1)", "sent 1", "removed"]


def test_extending_calls_a_tool_in_process(user: Any, settings: Any) -> None:
    serve(settings, look)
    say = run("reference/extending", "def say")["say"]
    assert say(user, "a") == {"result": "a"}
    assert ToolCallRecord.objects.get().outcome == "succeeded"
    with pytest.raises(UnknownToolError):
        say(AnonymousUser(), "a")


def look(word: str) -> str:
    """Say a word."""
    if word == "no":
        raise ToolError("No.")
    return word


def disconnect(names: dict[str, Any]) -> None:
    """Disconnect the receivers that a block has connected."""
    for name, heard in vars(signals).items():
        if name.startswith("tool"):
            for each in names.values():
                heard.disconnect(each)


def test_audit_hides_marked_values(user: Any, settings: Any) -> None:
    settings.MCP_BRIDGE = {"AUDIT": {"ARGUMENTS": "full"}}
    offer(settings, run("operate/call-log", "def connect")["connect"])
    CheckedClient(user=user).call_tool("connect", {"key": "k-1", "door": "d-1"})
    kept = json.loads(ToolCallRecord.objects.get().arguments)
    assert kept == {"key": "[redacted]", "door": "[redacted]"}
    settings.MCP_BRIDGE = run("operate/call-log", "SENSITIVE_NAMES")["MCP_BRIDGE"]
    serve(settings, mcp_tool()(pay))
    CheckedClient(user=user).call_tool("pay", {"my_iban": "DE1", "sum": 2})
    kept = json.loads(ToolCallRecord.objects.latest("pk").arguments)
    assert kept == {"my_iban": "[redacted]", "sum": 2}


def pay(my_iban: str, sum: int) -> None:
    """Pay a sum."""


def test_throttling_returns_when_to_retry(user: Any, settings: Any) -> None:
    cache.clear()
    offer(settings, run("access/throttling", "def send_newsletter")["send_newsletter"])
    client, subject = CheckedClient(user=user), {"subject": "News"}
    # A minute may end in the middle.
    results = (client.call_tool("send_newsletter", subject) for _ in range(42))
    last = next(each for each in results if each["isError"])
    told = json.loads(block("access/throttling", "Too many calls", kind="json"))
    wait = last["_meta"]["mcp-bridge/retryAfter"]
    assert told["_meta"].keys() <= last["_meta"].keys()
    after = f"Retry after {wait} second{'s' * (wait > 1)}."
    assert text_of(last) == text_of(told).replace("Retry after 37 seconds.", after)


def test_testing_serves_one_tool(user: Any, settings: Any) -> None:
    run("reference/testing", "def greet")["test_greeting"](user, settings)


def test_throttling_settings_and_class_are_valid(settings: Any) -> None:
    def delete() -> None:
        """Delete all articles."""

    def report() -> None:
        """Report."""

    server = RpcServer(register_system_procedures=False)
    server.register_procedure(mcp_tool(throttle="reports")(report))
    server.register_procedure(name="articles.delete")(mcp_tool(delete))
    route(settings, path("rpc", server.view))
    settings.MCP_BRIDGE = run("access/throttling", '"reports": "10/day"')["MCP_BRIDGE"]
    found = {each.id for each in checks.run_checks()}
    assert not found & {f"mcp_bridge.{each}" for each in ("E002", "E020", "E021", "W020", "W021")}
    throttle = run("access/throttling", "class SiteRateThrottle")["SiteRateThrottle"]
    assert issubclass(throttle, ToolRateThrottle)
    assert throttle().get_caller(None) == ("site", "")


def test_toolsets_have_the_documented_tools(settings: Any, user: Any) -> None:
    def articles_get() -> str:
        """Read an article."""
        return ""

    def articles_write() -> str:
        """Write an article."""
        return ""

    settings.MCP_BRIDGE = run("tools/toolsets", "TOOLSETS")["MCP_BRIDGE"]
    functions = mcp_tool(read_only=True)(articles_get), mcp_tool(articles_write)
    serve_toolsets(settings, settings.MCP_BRIDGE["TOOLSETS"], *functions)
    for name, listed in (
        ("editing", ["articles_get", "articles_write"]),
        ("reading", ["articles_get"]),
    ):
        client = CheckedClient(user=user, path=f"/mcp/{name}")
        assert [tool["name"] for tool in client.list_tools()] == listed
    assert client.post("server/discover")["instructions"].startswith("Search before you answer.")
    found = checks.run_checks(tags=["mcp_bridge"])
    assert {each.id for each in found if not each.is_silenced()} == {"mcp_bridge.W095"}
