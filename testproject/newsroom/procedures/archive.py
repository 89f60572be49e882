"""Work on the archive as a whole, which takes its time."""

from __future__ import annotations

import time
from typing import Annotated

from django.db import transaction
from modernrpc import RpcNamespace
from pydantic import Field
from typing_extensions import TypedDict

from mcp_bridge import mcp_tool
from testproject.newsroom.models import Article
from testproject.newsroom.procedures.access import may

procedures = RpcNamespace()


class Recount(TypedDict):
    articles: int
    words: int
    corrected: int
    seconds: float


@procedures.register_procedure(name="recount", auth=may("newsroom.recount_article"))
@mcp_tool(
    title="Recount the archive",
    destructive=False,
    idempotent=True,
    permissions="newsroom.recount_article",
    scopes="news:write",
)
# In one transaction, nobody else could write for as long as it takes.
@transaction.non_atomic_requests
def recount_archive(pause: Annotated[float, Field(ge=0, le=0.1)] = 0.01) -> Recount:
    """
    Count the words of every article anew and correct what is stored. This is slow.

    It rests between articles so that the site stays quick: expect some seconds for a few hundred
    articles.

    :param pause: How long to rest after each article, in seconds.
    """
    began = time.monotonic()
    articles = words = corrected = 0
    for pk, body, stored in Article.objects.values_list("pk", "body", "word_count"):
        counted = len(body.split())
        if counted != stored:
            Article.objects.filter(pk=pk).update(word_count=counted)
            corrected += 1
        articles += 1
        words += counted
        time.sleep(min(pause, 0.1))
    return {
        "articles": articles,
        "words": words,
        "corrected": corrected,
        "seconds": round(time.monotonic() - began, 3),
    }
