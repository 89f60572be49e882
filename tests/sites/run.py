"""One site from an empty folder to a confirmed call."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.sites.site import OWN, PASSWORD, USERS, Interface, Site

HERE = Path(__file__).parent
# The additions that docs/start/installation.md recommends to every site.
SETTINGS = """
INSTALLED_APPS = [*INSTALLED_APPS, {apps}]
MCP_BRIDGE = {bridge!r}
"""
URLS = """
from django.urls import include, path
urlpatterns = [path("", include("mcp_bridge.urls")), *urlpatterns]
"""
SOURCE = "mcp_bridge.sources.modernrpc.ModernRPCSource"
# On SQLite, as docs/start/installation.md says too.
SQLITE = """
if DATABASES["default"]["ENGINE"].endswith("sqlite3"):
    DATABASES["default"].setdefault("OPTIONS", {})["transaction_mode"] = "IMMEDIATE"
"""
# As the button of the admin does, of a site with EXPOSE = "all".
SWITCH_ON = """
from collections import Counter
from mcp_bridge.models import ToolSetting
from mcp_bridge.registry.registry import registry
candidates = registry.discovered.candidates
rows, refused = [], Counter()
for name, candidate in candidates.items():
    try:
        registry.build(candidate)
        rows.append(ToolSetting(name=name, chosen=True))
    except ValueError as reason:
        refused["secret" if "secret" in str(reason) else str(reason)] += 1
ToolSetting.objects.bulk_create(rows)
print(f"{len(rows)} of {len(candidates)} candidates are on;", *(
    f"{number} not: {reason}" for reason, number in refused.items()
))
"""
SESSIONS = """
import json
from django.contrib.auth import get_user_model
from django.test import Client
for name in {names}:
    client = Client()
    client.force_login(get_user_model()._default_manager.get_by_natural_key(name))
    print(client.cookies.output(header="", sep=";").partition(";")[0].strip())
"""


class Failure(Exception):
    """An unmet requirement; the text names it."""


class Run:
    """The steps of one site, in a folder that is deleted at the end."""

    patience = 600
    """The most seconds that a program may take."""

    def __init__(self, site: Site, programs: Path) -> None:
        self.site = site
        self.interface = site.interface or Interface(sources={}, operations=0, warned=frozenset())
        self.programs = programs
        self.folder = Path()
        self.switched = ""
        # One port for both times, since pages contain their own address.
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port: int = free.getsockname()[1]

    def whole(self) -> str:
        """Run all steps; return a line on the outcome, or raise Failure."""
        with tempfile.TemporaryDirectory(prefix=f"site-{self.site.name}-") as folder:
            self.folder = Path(folder)
            self.make()
            with self.serving():
                before = self.pages()
                again = self.pages()
                changing = [page for page in before if again[page] != before[page]]
                if changing:
                    raise Failure(
                        f"Choose others than {changing}, whose answers change with each request."
                    )
            warned = self.check()
            started = time.monotonic()
            self.install()
            new = self.check() - warned
            said = {text.split("(mcp_bridge.")[-1][:4] for text in new}
            if said != self.interface.warned:
                raise Failure("`manage.py check` says:\n" + "\n".join(sorted(new)))
            seconds = time.monotonic() - started
            with self.serving():
                self.compare(before, self.pages())
                plan = self.plan()
                # Listing makes all tools in the process that serves the pages.
                self.drive({**plan, "calls": [], "confirmed": [], "refused": [], "writes": []})
                self.compare(before, self.pages())
                self.drive(plan)
                # The doctor reports no error about a healthy site.
                credential = f"{self.site.scheme} {plan['tokens']['admin']}"
                self.manage("mcp_doctor", "--url", f"{plan['url']}/", "--token", credential)
            compared = f"\n     {self.hold()}" if self.site.interface else ""
            if self.site.compares_admin:
                compared += f"\n     {self.hold_admin()}"
            if self.switched:
                compared = f"\n     {self.switched}{compared}"
        return (
            f"{len(before)} pages as before, installed in {seconds:.1f} s, "
            f"{len(self.site.listed)} lists, {len(plan['calls'])} calls, "
            f"{len(plan['confirmed'])} confirmed, {len(plan['writes'])} writes{compared}"
        )

    def make(self) -> None:
        for command in self.site.create:
            self.run(*command)
        with (self.folder / self.site.settings).open("a") as settings:
            settings.write(f"\nALLOWED_HOSTS = ['127.0.0.1']\n{self.site.own_settings}")
        with (self.folder / self.site.urls).open("a") as urls:
            urls.write(self.site.own_urls)
        for name, text in self.site.files.items():
            (self.folder / name).write_text(text)
        for app, models in self.site.apps.items():
            (self.folder / app).mkdir()
            shutil.copy(HERE / models, self.folder / app / "models.py")
            if app in self.site.admins:
                shutil.copy(HERE / self.site.admins[app], self.folder / app / "admin.py")
        if self.site.apps:
            self.manage("makemigrations", *self.site.apps)
        self.migrate()
        self.manage("shell", "-v", "0", "-c", (HERE / self.site.seed).read_text())

    def migrate(self) -> None:
        self.manage("migrate", "-v", "0")

    def install(self) -> None:
        """Follow docs/start/installation.md, and add the file of the ten procedures, if any."""
        sources = dict(self.interface.sources)
        if self.site.procedures:
            shutil.copy(HERE / self.site.procedures, self.folder / "procedures.py")
            sources["site"] = {"BACKEND": SOURCE, "OPTIONS": {"servers": ["procedures.server"]}}
        bridge = {"SOURCES": sources, **self.site.bridge}
        apps = ["mcp_bridge"] + ["mcp_bridge.tokens"] * (self.site.token_url is None)
        installed = "from django.conf import settings; print(settings.INSTALLED_APPS)"
        if "'rest_framework'" not in self.manage("shell", "-v", "0", "-c", installed):
            apps.insert(0, "rest_framework")
        with (self.folder / self.site.settings).open("a") as settings:
            settings.write(SETTINGS.format(apps=str(apps)[1:-1], bridge=bridge) + SQLITE)
        with (self.folder / self.site.urls).open("a") as urls:
            urls.write(URLS)
        self.manage("migrate", "-v", "0")
        if self.site.bridge.get("EXPOSE") == "all":
            self.switched = self.manage("shell", "-v", "0", "-c", SWITCH_ON).strip()

    def check(self) -> set[str]:
        """Return the output of the system checks, a line each."""
        said = self.run("python", "manage.py", "check", "--fail-level", "ERROR", errors=True)
        return set(re.findall(r"^\?*.*\([\w.]+[EWC]\d{3}\).*$", said, re.MULTILINE))

    def drive(self, plan: dict[str, object]) -> None:
        """Have the official client list, call and confirm as the users."""
        self.run("python", str(HERE / "client.py"), stdin=json.dumps(plan))

    def plan(self) -> dict[str, Any]:
        """Return the client's plan."""
        publish = (self.site.publish,) if self.site.publish else ()
        return {
            "url": f"http://127.0.0.1:{self.port}/mcp",
            "tokens": {user: self.token(user) for user in USERS},
            "scheme": self.site.scheme,
            "listed": {user: sorted(tools) for user, tools in self.site.listed.items()},
            "own": OWN,
            "calls": [*map(astuple, (*self.site.calls, *self.interface.calls))],
            "confirmed": [*map(astuple, (*publish, *self.interface.confirmed))],
            "refused": [*map(astuple, self.interface.refused)],
            "writes": [*map(astuple, self.interface.writes)],
            "sessions": self.sessions() if self.interface.writes else {},
        }

    def sessions(self) -> dict[str, str]:
        """Log each user in; return the cookie of their session."""
        names = [self.site.names[user] for user in USERS]
        code = SESSIONS.format(names=names)
        return dict(zip(USERS, self.manage("shell", "-v", "0", "-c", code).split(), strict=True))

    def hold(self) -> str:
        """Compare the tools of the interface with its addresses; return the counts."""
        own = self.interface
        plan = {
            "users": [self.site.names[user] for user in USERS],
            "operations": own.operations,
            "values": own.values,
            "arguments": [*own.arguments.items()],
            "differs": own.differs,
            "changing": [*own.changing],
            "credential": own.credential,
        }
        code = (HERE / "parity.py").read_text()
        return self.manage("shell", "-v", "0", "-c", code, stdin=json.dumps(plan)).strip()

    def hold_admin(self) -> str:
        """Compare the tools of the site's admin with its pages; return the counts."""
        shutil.copy(HERE.parent / "sources" / "admin" / "browser.py", self.folder)
        code = (HERE / "admin_parity.py").read_text()
        return self.manage("shell", "-v", "0", "-c", code).strip()

    def token(self, user: str) -> str:
        name = self.site.names[user]
        if self.site.token_url is None:
            return self.manage("mcp_token", "create", name, "--name", "gate").strip()
        body = json.dumps({"username": name, "password": PASSWORD})
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        # knox reads the name and the password here, djoser in the body.
        headers = {"Content-Type": "application/json", "Authorization": self.basic(user)}
        connection.request("POST", self.site.token_url, body, headers)
        answer = connection.getresponse().read()
        return str(json.loads(answer)[self.site.token_key])

    def basic(self, user: str) -> str:
        credential = f"{self.site.names[user]}:{PASSWORD}".encode()
        return f"Basic {base64.b64encode(credential).decode()}"

    def pages(self) -> dict[str, tuple[int, list[tuple[str, str]], bytes]]:
        """Return status, headers and body of each of the site's own pages."""
        found = {}
        owner = {"Authorization": self.basic("admin")}
        asked = {**dict.fromkeys(self.site.pages, {}), **dict.fromkeys(self.interface.pages, owner)}
        for page, sent in asked.items():
            connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
            connection.request("GET", page, headers=sent)
            response = connection.getresponse()
            changing = self.site.changing_headers
            headers = [pair for pair in response.getheaders() if pair[0].lower() not in changing]
            found[page] = (response.status, headers, response.read())
            if response.status >= (500 if sent else 400):
                raise Failure(f"{page} answers {response.status}: {found[page][2][-500:]!r}")
        return found

    def compare(self, before: dict[str, object], after: dict[str, object]) -> None:
        for page, answer in before.items():
            if after[page] != answer:
                raise Failure(f"{page} has changed:\nbefore {answer}\nafter  {after[page]}")

    @contextmanager
    def serving(self) -> Iterator[None]:
        """Serve the site with gunicorn."""
        module = self.site.settings.rsplit("/", 1)[0].split("/")[0]
        log = self.folder / "gunicorn.log"
        command = ["gunicorn", f"{module}.wsgi", "-b", f"127.0.0.1:{self.port}", "--threads", "4"]
        with log.open("ab") as output:
            process = subprocess.Popen(
                [self.programs / command[0], *command[1:]],
                cwd=self.folder,
                env=self.environment(),
                stdout=output,
                stderr=output,
            )
        try:
            self.wait(process)
            yield
        except Failure as failure:
            raise Failure(f"{failure}\n{log.read_text()[-3000:]}") from None
        finally:
            process.terminate()
            process.wait(20)

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                time.sleep(0.05)
        raise Failure("The server did not start.")

    def manage(self, *arguments: str, stdin: str = "") -> str:
        return self.run("python", "manage.py", *arguments, stdin=stdin)

    def run(self, program: str, *arguments: str, stdin: str = "", errors: bool = False) -> str:
        """Run a program of the environment in the site's folder; return its output."""
        done = subprocess.run(
            [self.programs / program, *arguments],
            cwd=self.folder,
            env=self.environment(),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=self.patience,
            check=False,
        )
        if done.returncode:
            said = f"{done.stdout[-3000:]}\n{done.stderr[-4000:]}"
            raise Failure(f"`{program} {' '.join(arguments)[:200]}` failed:\n{said}")
        return done.stdout + (done.stderr if errors else "")

    def environment(self) -> dict[str, str]:
        inherited = {name: os.environ[name] for name in ("HOME", "LANG") if name in os.environ}
        path = f"{self.programs}:{os.environ['PATH']}"
        return {
            **inherited,
            "PATH": path,
            "PYTHONDONTWRITEBYTECODE": "1",
            "SITE_USERS": " ".join(USERS),
            "SITE_PASSWORD": PASSWORD,
            **self.site.env,
        }
