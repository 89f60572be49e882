"""The built package, as an installer and the package index receive it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tarfile
from email.message import Message
from email.parser import Parser
from pathlib import Path
from zipfile import ZipFile

import pytest

from mcp_bridge.conf import DOCUMENTATION

pytestmark = pytest.mark.alone

ROOT = Path(__file__).resolve().parent.parent
# Files of a checkout only, and those that make, the tests and the tools leave in it.
LOCAL = shutil.ignore_patterns(
    *(".git", ".venv*", ".tox", ".*_cache", ".conformance", ".coverage", ".hypothesis"),
    *(
        ".screenshots",
        "*.egg-info",
        "*.sqlite3",
        "__pycache__",
        "build",
        "dist",
        "node_modules",
        "site",
    ),
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution, and the wheel built from it."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(ROOT, folder / "source", ignore=LOCAL)
    done = subprocess.run(
        [sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, folder / "source"],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def in_source(built: Path) -> set[str]:
    (archive,) = built.glob("*.tar.gz")
    with tarfile.open(archive) as source:
        return {name.partition("/")[2] for name in source.getnames()}


@pytest.fixture(scope="module")
def in_wheel(built: Path) -> set[str]:
    (archive,) = built.glob("*.whl")
    with ZipFile(archive) as wheel:
        return set(wheel.namelist())


@pytest.fixture(scope="module")
def metadata(built: Path) -> Message:
    (archive,) = built.glob("*.whl")
    with ZipFile(archive) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(wheel.read(name).decode())


def files(*folders: str) -> set[str]:
    return {
        path.relative_to(ROOT).as_posix()
        for folder in folders
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and not {"__pycache__", "node_modules"} & set(path.parts)
    }


def test_sdist_has_documentation_changelog_and_tests(in_source: set[str]) -> None:
    wanted = files("docs", "mcp_bridge", "testproject", "tests")
    documents = {"README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE"}
    named = {*documents, "Makefile", "manage.py", "mkdocs.yml", "setup.cfg"}
    assert sorted((wanted | named) - in_source) == []


def test_wheel_has_only_the_app(in_wheel: set[str]) -> None:
    installed = {name for name in in_wheel if ".dist-info/" not in name}
    assert installed == files("mcp_bridge")


def test_description_has_only_absolute_links(metadata: Message) -> None:
    description = str(metadata.get_payload())
    links = re.findall(r"\]\(([^)]*)\)|^\[[^]]+\]: (.*)$", description, re.MULTILINE)
    assert len(links) > 10
    assert [each for each in map("".join, links) if not each.startswith("https://")] == []


def test_package_has_project_urls(metadata: Message) -> None:
    urls = dict(each.split(", ") for each in metadata.get_all("Project-URL", []))
    assert urls.keys() == {"Documentation", "Changes", "Source", "Issues"}
    assert urls.pop("Documentation") == DOCUMENTATION
    assert all(url.startswith(urls["Source"]) for url in urls.values())
    assert metadata["Description-Content-Type"] == "text/markdown"
