"""Ten procedures of a Wagtail site."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from django.contrib.auth import get_user_model
from django.core.exceptions import PermissionDenied
from home.models import HomePage
from modernrpc.server import RpcServer
from pydantic import Field
from stories.models import StoryPage
from wagtail.images import get_image_model
from wagtail.models import Page, Site

from mcp_bridge import Context, ToolError, mcp_tool

server = RpcServer()
EDITING = "wagtailadmin.access_admin"


@dataclass
class Summary:
    """A page in a list."""

    title: str
    path: str
    live: bool


@dataclass
class Found:
    """A page that was found."""

    id: int
    title: str


@dataclass
class Story:
    """A story."""

    title: str
    body: list[dict[str, Any]]


def summary(page: Page) -> Summary:
    return Summary(page.title, page.relative_url(Site.objects.get(is_default_site=True)), page.live)


def find(path: str) -> Page:
    for page in Page.objects.filter(slug=path.strip("/").rpartition("/")[2]):
        if page.relative_url(Site.objects.get(is_default_site=True)) == path:
            return page
    raise ToolError(f"There is no page {path!r}: pages_list shows the paths.")


@server.register_procedure
@mcp_tool(read_only=True)
def pages_list(limit: Annotated[int, Field(ge=1, le=100)] = 20) -> list[Summary]:
    """List the live pages, newest first."""
    return [
        summary(page) for page in Page.objects.live().filter(depth__gt=1).order_by("-pk")[:limit]
    ]


@server.register_procedure
@mcp_tool(read_only=True)
def page_read(path: str) -> dict[str, str]:
    """Read a page's title and description."""
    page = find(path)
    return {"title": page.title, "description": page.search_description}


@server.register_procedure
@mcp_tool(read_only=True)
def pages_search(query: Annotated[str, Field(min_length=2)]) -> list[Found]:
    """Search the live pages."""
    return Page.objects.live().search(query)


@server.register_procedure
@mcp_tool(read_only=True)
def page_history(path: str) -> list[str]:
    """Return when each revision of a page was made."""
    return [revision.created_at.isoformat() for revision in find(path).revisions.all()]


@server.register_procedure
@mcp_tool(read_only=True)
def images_list() -> list[str]:
    """List the titles of the images."""
    return list(get_image_model().objects.values_list("title", flat=True))


@server.register_procedure
@mcp_tool(read_only=True)
def story_read(story: StoryPage) -> Story:
    """Read a story, block by block."""
    return story


@server.register_procedure
@mcp_tool(permissions=EDITING)
def page_create(context: Context, parent: str, title: str) -> Summary:
    """Create a draft below a page."""
    above = find(parent)
    if not above.permissions_for_user(context.user).can_add_subpage():
        raise PermissionDenied("You may not add pages there.")
    page = above.add_child(instance=HomePage(title=title, live=False, owner=context.user))
    page.save_revision(user=context.user)
    return summary(page)


@server.register_procedure
@mcp_tool(permissions=EDITING, idempotent=True)
def page_rename(context: Context, path: str, title: str) -> Summary:
    """Give a page another title, in a draft."""
    page = find(path).specific
    if not page.permissions_for_user(context.user).can_edit():
        raise PermissionDenied("You may not edit this page.")
    page.title = title
    page.save_revision(user=context.user)
    return summary(page)


@server.register_procedure
@mcp_tool(permissions=EDITING, confirm=True)
def page_publish(context: Context, path: str) -> str:
    """Publish the newest draft of a page."""
    page = find(path)
    if not page.permissions_for_user(context.user).can_publish():
        raise PermissionDenied("You may not publish this page.")
    page.get_latest_revision().publish(user=context.user)
    return f"{path} is live."


@server.register_procedure
@mcp_tool(read_only=True, permissions="auth.view_user")
def users_list() -> list[str]:
    """List the names of the site's users."""
    return [user.get_username() for user in get_user_model().objects.order_by("pk")]
