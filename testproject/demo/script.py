"""The scripted session: what a reader and an editor see and do, in both eras of MCP."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec

from asgiref.sync import sync_to_async
from mcp_types import ResourceTemplateReference

from testproject.demo import desk
from testproject.demo.client import Visitor, expect, visit
from testproject.demo.desk import WeatherDesk
from testproject.demo.login import Browser, login
from testproject.demo.site import SiteLog, last_call, served_under_asgi, switch
from testproject.demo.tasks import (
    Follower,
    approve_held,
    copies,
    first_copy,
    is_over,
    settled,
    worker,
)
from testproject.newsroom.seeding.users import PASSWORD

# The client's mode for each era, and the revision that has to come of it.
ERAS = {"auto": "2026-07-28", "legacy": "2025-11-25"}
TITLE = "Lighthouse keeper retires after forty years"
BODY = (
    "The light at the harbour mouth will turn without her: Fairhaven's last lighthouse keeper "
    'has handed over the keys.\n\nThe lamp was automated years ago. "Somebody still had to '
    'clean the windows," she said.'
)
NO_STORY = "9f1c0d7e-5a44-4c1b-9d0e-3f6f2a1b7c55"


@dataclass(frozen=True, slots=True)
class Script:
    """
    Plays the session and shows it by ``say`` and ``head``.

    Raises NotAsExpected as soon as the newsroom answers something else than the script says.
    """

    url: str
    tokens: dict[str, str]
    log: SiteLog
    desk: WeatherDesk
    say: Callable[[str], None]
    head: Callable[[str], None]

    async def play(self) -> None:
        seen: dict[str, dict[str, list[str]]] = {}
        for mode, revision in ERAS.items():
            seen[revision] = {}
            for role, scene in (("reader", self._as_reader), ("editor", self._as_editor)):
                self.head(f"As {role}, MCP {revision}, official client {version('mcp')}")
                async with visit(self.url, mode, self.tokens[role], self.say) as visitor:
                    self._connected(visitor, revision)
                    seen[revision][role] = await self._tools(visitor)
                    await scene(visitor)
            await self._by_login(mode, revision)
        await self._changing()
        await self._remote()
        await asyncio.to_thread(self._tasks)
        self._compare(seen)

    async def _changing(self) -> None:
        """Look at the list under ASGI, while an administrator switches a tool."""
        with served_under_asgi() as url:
            self.head("As reader, under ASGI, while an administrator looks at the tools")
            async with visit(url, "auto", self.tokens["reader"], self.say) as reader:
                before = await reader.tool_names()
                async with reader.client.listen(tools_list_changed=True) as changes:
                    for enabled in (False, True):
                        await asyncio.to_thread(switch, "sections_list", enabled)
                        await anext(changes)
                        now = await reader.tool_names()
                        gone = [name for name in before if name not in now]
                        expect(gone == ["sections_list"] * (not enabled), "the list to change")
                        state = "enabled" if enabled else "disabled"
                        self.say(f"the administrator has {state} sections_list: {len(now)} tools")

    async def _remote(self) -> None:
        """Connect another MCP server, whose tool is approved, called and changed."""
        self.head("Another MCP server, the weather desk, is connected")
        tool, in_site = desk.NAME, sync_to_async(thread_sensitive=False)
        found = await in_site(desk.connect)(self.desk.url)
        self.say(f"its tools are fetched ({found.new}), and wait for an administrator")
        await in_site(desk.approve)("editor")
        self.say(f"the administrator has approved {tool}, for the group editor")
        for role in ("reader", "editor"):
            async with visit(self.url, "auto", self.tokens[role], self.say) as visitor:
                if role == "reader":
                    refused = await visitor.refusal(tool, region="Fairhaven")
                    self.say(f"as reader, {tool}: {refused!r}")
                    continue
                warnings = await visitor.call(tool, region="Fairhaven")
                expect("gusts" in warnings[0], "a warning of the desk")
                self.say(f"as editor, {tool}: {warnings[0]}")
                told = await in_site(last_call)(tool)
                expect(told == ("editor", "succeeded", "desk", "2xx"), f"the record, not {told}")
                self.say(f"on record: {', '.join(told)}")
        await in_site(self.desk.restart)(desk.CHANGED)
        changed = (await in_site(desk.fetch)()).changed
        expect(changed == 1, "the definition to have changed")
        await self._sees(tool, served=False)
        self.say("the desk has changed its definition: the tool waits for approval")
        await in_site(desk.approve)("editor")
        await self._sees(tool, served=True)
        self.say("the administrator has approved the change: it is served again")

    def _tasks(self) -> None:
        """Import copies and delete an article in a worker, as a client that follows tasks."""
        self.head("As editor, with a client that follows tasks, and a worker")
        follower = Follower(self.url, self.tokens["editor"])
        with worker():
            key = follower.begin("wire_import", copies=200)
            self.say("wire_import of 200 copies: a task, at once")
            told = follower.until(key, lambda task: "statusMessage" in task)["statusMessage"]
            self.say(f"    it is {told!r}")
            follower.post("tasks/cancel", taskId=key)
            task = follower.until(key, is_over)
            expect(task["status"] == "cancelled", "the import to be cancelled")
            count = settled(copies)
            expect(0 < count < 200, f"a part of 200 copies, not {count}")
            self.say(f"    cancelled half-way, it leaves the {count} drafts that it had committed")
            slug = first_copy()
            key = follower.begin("articles_delete", slug=slug)
            told = follower.until(key, lambda task: "statusMessage" in task)["statusMessage"]
            self.say(f"articles_delete: {told}")
            approve_held()
            task = follower.until(key, is_over)
            expect(task["status"] == "completed", "the deletion to run once it is approved")
            deleted = task["result"]["structuredContent"]["slug"]
            expect(deleted == slug, "the article to be deleted")
            self.say(f"    the administrator has approved it: {deleted} is gone")

    async def _sees(self, tool: str, *, served: bool) -> None:
        """Expect an editor to see a tool or not; a client keeps its list for a while."""
        async with visit(self.url, "auto", self.tokens["editor"], self.say) as editor:
            names = await editor.tool_names()
            expect((tool in names) == served, f"{tool} {'' if served else 'not '}to be served")

    def _connected(self, visitor: Visitor, revision: str) -> None:
        client = visitor.client
        expect(
            client.protocol_version == revision, f"MCP {revision}, not {client.protocol_version}"
        )
        name = client.server_info.name if client.server_info else "a server without a name"
        self.say(f"connected to {name}, which speaks MCP {client.protocol_version}")

    async def _tools(self, visitor: Visitor) -> list[str]:
        names = await visitor.tool_names()
        self.say(f"sees {len(names)} tools:")
        for line in textwrap.wrap(", ".join(names), 86):
            self.say(f"    {line}")
        return names

    async def _as_reader(self, reader: Visitor) -> None:
        me = await reader.call("desk_whoami")
        expect(me["username"] == "reader", "the tool to run as the user reader")
        found = await reader.call("articles_search", query="harbour", page_size=3)
        expect(found["hits"], "hits for harbour")
        statuses = {hit["status"] for hit in found["hits"]}
        expect(statuses == {"published"}, "a reader to see published articles only")
        self.say(f'articles_search "harbour": {found["total"]} hits, the first three:')
        for hit in found["hits"]:
            self.say(f"    {hit['slug']}")
        text = await reader.call("articles_get", slug=found["hits"][0]["slug"])
        expect(text.startswith("# "), "the article as Markdown")
        self.say(f"articles_get: {len(text)} characters of Markdown")
        for line in text.splitlines()[:3]:
            self.say(f"    {line}" if line else "")
        await self._reading(reader, found["hits"][0]["slug"])
        authors = await reader.call("authors_list", ordering="byline", page_size=1)
        written = await reader.call("authors_articles", pk=authors["results"][0]["id"])
        expect(written, "articles of an author, from a view of Django REST framework")
        self.say(f"authors_articles, a view of the REST API: {written[0]['title']!r} is the newest")
        pictures = await reader.call("media_list")
        await reader.image("media_show", media=pictures[0]["id"])
        await self._archive(reader)
        await self._statistics(reader)
        await self._weather(reader)
        refused = await reader.refusal("articles_delete", slug=found["hits"][0]["slug"])
        self.say(f"articles_delete: refused as if it did not exist, {refused!r}")

    async def _reading(self, reader: Visitor, slug: str) -> None:
        """Complete a slug, read its article as a resource, get a prompt about it, read a skill."""
        client = reader.client
        (template,) = (await client.list_resource_templates()).resource_templates
        ref = ResourceTemplateReference(uri=template.uri_template)
        argument = {"name": "slug", "value": slug[:8]}
        completed = (await client.complete(ref, argument)).completion.values
        expect(slug in completed, "the slug among its completions")
        uri = template.uri_template.replace("{slug}", slug)
        (contents,) = (await client.read_resource(uri)).contents
        expect(contents.mime_type == "text/markdown", "Markdown")
        self.say(f"{uri}, completed from {slug[:8]!r}: {len(contents.text)} characters")
        named = [each.name for each in (await client.list_prompts()).prompts]
        expect(named == ["headline", "review"], f"two prompts, not {named}")
        prompt = await client.get_prompt("headline", {"slug": slug, "count": "2"})
        text = prompt.messages[0].content.text
        self.say(f"the prompt headline: {text.splitlines()[0]}")
        listed = {each.name: each for each in (await client.list_resources()).resources}
        skill = listed["edit-an-article"]
        (contents,) = (await client.read_resource(skill.uri)).contents
        expect(contents.text.startswith("---\nname: edit-an-article\n"), "a skill")
        self.say(f"{skill.uri}, a skill: {skill.description.partition('. ')[0]}")

    async def _weather(self, reader: Visitor) -> None:
        forecast = await reader.call("weather_forecasts_read", place="Fairhaven", days=2)
        today = forecast["days"][0]
        self.say(
            "weather_forecasts_read, an operation of another service: "
            f"{forecast['place']}, {today['sky']}, {today['degrees']} degrees"
        )
        text = await reader.failure("weather_forecasts_read", place="fairhaven")
        self.say(f"    in the words of that service: {text}")

    async def _archive(self, reader: Visitor) -> None:
        found = await reader.call("print_archive_find_pages", words="harbour")
        expect(found["total"] == "2", "two pages of the archive, counted as ProtoJSON does")
        self.say("print_archive_find_pages, of the archive's gRPC service:")
        for page in found["pages"]:
            self.say(f"    {page['id']}: {page['headline']}")

    async def _statistics(self, reader: Visitor) -> None:
        rows = await reader.call("statistics_table", by="section")
        expect(sum(row["articles"] for row in rows) > 100, "more than 100 articles")
        row = rows[0]
        first = f"{row['group']} has {row['articles']} articles, {row['words']} words"
        self.say(f"statistics_table: {len(rows)} rows, {first}")
        if find_spec("matplotlib"):
            await reader.image("statistics_chart", by="section")
        else:
            refused = await reader.failure("statistics_chart", by="section")
            self.say(f"statistics_chart: {refused}")

    async def _as_editor(self, editor: Visitor) -> None:
        brief = await editor.call("desk_brief")
        counts = ", ".join(f"{count} {status}" for status, count in brief["articles"].items())
        self.say(f"desk_brief: {counts}")
        waiting = await editor.call("moderation_comments", limit=2)
        expect(len(waiting) == 2, "two comments of an API of django-ninja")
        hidden = await editor.call("moderation_hide", number=waiting[0]["id"])
        expect(hidden["hidden"], "the comment to be hidden")
        self.say(f"moderation_hide, of an API of django-ninja: comment {hidden['id']} is hidden")
        wrong = await editor.failure("articles_draft", title="Oh", section="local", size=3)
        lines = wrong.splitlines()
        expect(len(lines) == 3, f"three complaints about three mistakes, not {wrong!r}")
        self.say("articles_draft with three mistakes: all are named at once")
        for line in lines:
            self.say(f"    {line}")
        legacy = editor.client.protocol_version == ERAS["legacy"]
        page = "1999-08-12/2" if legacy else "1962-03-14/3"
        order = await editor.call("print_archive_order_scan", page=page, resolution=300)
        expect(order["ordered_by"] == "editor", "the archive to hear who calls")
        self.say(f"print_archive_order_scan: the archive scans {page} for {order['ordered_by']}")
        await self._publish(editor)
        if not legacy:
            await self._in_the_admin(editor)
        self.say("wire_import of 50 copies, which reports its progress:")
        imported = await editor.with_bar("wire_import", copies=50)
        expect(imported["drafts"] == 50, "50 drafts")
        await self._failing(editor)

    async def _publish(self, editor: Visitor) -> None:
        found = await editor.call("style_check", text=f"{BODY}\n\nWhat a very long watch!")
        expect(len(found) == 2, f"two findings of the house style, not {found}")
        self.say("style_check, a plain function:")
        for each in found:
            self.say(f"    line {each['line']}, {each['rule']}: {each['advice']}")
        article = await editor.call("articles_draft", title=TITLE, section="local", body=BODY)
        slug = article["slug"]
        steps = [article["status"]]
        early = await editor.failure("articles_publish", slug=slug)
        self.say(f"articles_publish of a draft: {early}")
        for step in ("submit", "publish"):
            article = await editor.call(f"articles_{step}", slug=slug)
            steps.append(article["status"])
        expect(steps == ["draft", "review", "published"], f"the workflow, not {steps}")
        self.say(f"articles_draft, _submit, _publish: {slug} is {', then '.join(steps)}")
        headlines = await editor.call("articles_headlines", limit=1)
        expect(headlines[0]["title"] == TITLE, "the new article on top of the headlines")
        self.say(f"articles_headlines: {headlines[0]['title']!r} comes first now")
        await editor.call("articles_unpublish", slug=slug)
        if editor.client.protocol_version == ERAS["legacy"]:
            waiting = await editor.failure("articles_delete", slug=slug)
            expect("requires a person's approval" in waiting, "the deletion to wait")
            self.say("articles_unpublish, _delete: this client cannot ask its user, so it waits:")
            for line in textwrap.wrap(waiting, 86):
                self.say(f"    {line}")
            return
        deleted = await editor.call("articles_delete", slug=slug)
        expect(deleted["slug"] == slug, "the article to be deleted")
        self.say("articles_unpublish, _delete: and it is gone again")

    async def _in_the_admin(self, editor: Visitor) -> None:
        """Find, change and publish an article with a comment by the pages of the admin."""
        draft = await editor.call("articles_draft", title=TITLE, section="local", body=BODY)
        await editor.call("articles_submit", slug=draft["slug"])
        found = await editor.call("newsroom_article_find", search=TITLE, status="review")
        row = found["rows"][0]["id"]
        read = await editor.call("newsroom_article_get", id=row)
        self.say(f"newsroom_article_find, of the admin: {found['count']} article, by its list")
        comment = {"user": 1, "text": "Who has the keys now?"}
        changes = {"title": "Last lighthouse keeper retires", "comments": [comment]}
        version = read["version"]
        self.say("newsroom_article_change, with old and new values:")
        await editor.call("newsroom_article_change", id=row, version=version, **changes)
        read = await editor.call("newsroom_article_get", id=row)
        expect(read["fields"]["title"] == changes["title"], "the title to be changed")
        expect(len(read["fields"]["comments"]) == 1, "a comment to be added")
        done = await editor.call("newsroom_article_publish", ids=[row])
        self.say(f"newsroom_article_publish, an action: {done['messages'][0]['text']}")
        history = await editor.call("newsroom_article_history", id=row)
        told = history["entries"][-1]["message"]
        expect("by mcp" in told, f"the history to name the client, not {told!r}")
        self.say(f"its history page: {told}")
        await editor.call("articles_unpublish", slug=draft["slug"])
        await editor.call("articles_delete", slug=draft["slug"])

    async def _failing(self, editor: Visitor) -> None:
        text = await editor.failure("wire_import", story=NO_STORY)
        cause = self.log.last_cause()
        expect("wire-gateway" not in text, "the cause to be hidden from the model")
        expect("wire-gateway" in cause, "the cause in the log of the site")
        self.say(f"wire_import, whose agency is down: {text}")
        self.say(f"    while the site's log has: {cause[:48]}...")

    async def _by_login(self, mode: str, revision: str) -> None:
        self.head(f"By a login, with the address alone, MCP {revision}")
        browser = Browser("reader", PASSWORD, say=self.say)
        async with visit(self.url, mode, login(self.url, browser), self.say) as visitor:
            self._connected(visitor, revision)
            me = await visitor.call("desk_whoami")
            expect(me["username"] == "reader", "the client to act as its user")
            found = await visitor.call("articles_search", query="harbour", page_size=1)
            slug = found["hits"][0]["slug"]
            self.say(f"acts as {me['username']} and reads; to comment takes another scope:")
            await visitor.call("comments_add", article=slug, text="Seen by a demo.")
            self.say("comments_add: done, once the user had allowed that too")

    def _compare(self, seen: dict[str, dict[str, list[str]]]) -> None:
        modern, legacy = seen.values()
        expect(modern == legacy, "the same tools in both eras")
        more = [name for name in modern["editor"] if name not in modern["reader"]]
        expect(len(more) > 5, "an editor to see more than a reader")
        self.head("In short")
        self.say("both eras show the same tools to the same user;")
        self.say(f"the editor sees {len(more)} that the reader does not:")
        for line in textwrap.wrap(", ".join(more), 86):
            self.say(f"    {line}")
