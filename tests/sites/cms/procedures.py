"""Ten procedures of a site of django CMS."""

from __future__ import annotations

from typing import Literal

from cms.api import create_page
from cms.models import PageContent
from django.conf import settings
from django.contrib.auth import get_user_model
from djangocms_versioning.constants import DRAFT
from djangocms_versioning.models import Version
from modernrpc.server import RpcServer

from mcp_bridge import Context, ToolError, mcp_tool

server = RpcServer()
EDITING = "cms.change_page"
Language = Literal["en", "de"]


def contents(slug: str, language: Language = "en") -> list[PageContent]:
    """Return all versions of a page, the newest first."""
    found = PageContent.admin_manager.filter(slug=slug, language=language).order_by("-pk")
    if not found:
        raise ToolError(f"There is no page {slug!r} in {language}: pages_list shows the slugs.")
    return list(found)


@server.register_procedure
@mcp_tool(read_only=True)
def pages_list(language: Language = "en") -> dict[str, str]:
    """List the published pages: slug and title."""
    return {
        content.page.get_slug(language): content.title
        for content in PageContent.objects.filter(language=language)
    }


@server.register_procedure
@mcp_tool(read_only=True)
def page_read(slug: str, language: Language = "en") -> dict[str, str]:
    """Read a page's title and description."""
    content = contents(slug, language)[0]
    return {"title": content.title, "description": content.meta_description or ""}


@server.register_procedure
@mcp_tool(read_only=True)
def pages_search(query: str) -> list[str]:
    """Search the titles of the published pages."""
    found = PageContent.objects.filter(title__icontains=query)
    return list(found.values_list("title", flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def languages_list() -> dict[str, str]:
    """List the site's languages."""
    return dict(settings.LANGUAGES)


@server.register_procedure
@mcp_tool(read_only=True)
def menu(language: Language = "en") -> list[str]:
    """List the titles of the pages in the menu."""
    found = PageContent.objects.filter(language=language, in_navigation=True)
    return list(found.values_list("title", flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def page_versions(slug: str) -> list[str]:
    """Return the state of each version of a page, newest first."""
    return [Version.objects.get_for_content(content).state for content in contents(slug)]


@server.register_procedure
@mcp_tool(permissions=EDITING)
def page_create(context: Context, title: str, language: Language = "en") -> str:
    """Create a page as a draft, and return its slug."""
    page = create_page(title, "page.html", language, created_by=context.user)
    return page.get_admin_content(language).slug


@server.register_procedure
@mcp_tool(permissions=EDITING, idempotent=True)
def page_rename(slug: str, title: str) -> str:
    """Give the draft of a page another title."""
    draft = contents(slug)[0]
    if Version.objects.get_for_content(draft).state != DRAFT:
        raise ToolError(f"{slug} has no draft.")
    draft.title = title
    draft.save()
    return title


@server.register_procedure
@mcp_tool(permissions=["cms.publish_page", EDITING], confirm=True)
def page_publish(context: Context, slug: str) -> str:
    """Publish the newest version of a page."""
    version = Version.objects.get_for_content(contents(slug)[0])
    version.publish(context.user)
    return version.state


@server.register_procedure
@mcp_tool(read_only=True, permissions="auth.view_user")
def users_list() -> list[str]:
    """List the names of the site's users."""
    return [user.get_username() for user in get_user_model().objects.order_by("pk")]
