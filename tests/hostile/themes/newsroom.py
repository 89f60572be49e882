"""The newsroom's own tools, with values that reach its database, its files and its pages."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import call
from tests.hostile.wanted import WRONG_ARGUMENTS, Answered, Either

SITES, USER = ("newsroom",), ("token",)
# A missing object is a tool error, in the site's words.
NOT_THERE = Answered(is_error=True, runs=0)
DONE = Answered(runs=0, most=2**20)
EITHER = Either((DONE, NOT_THERE))
ODD = (
    "' OR 1=1 --",
    "../../etc/passwd",
    "%",
    "_",
    "\u202e",
    "<script>",
    "x" * 10_000,
    "",
    "{{7*7}}",
)
HUGE = (2**31, 2**63, -(2**63) - 1, 2**64, 10**30, 10**300, -1, 0)

THEME = Theme("newsroom")
THEME.add(
    NOT_THERE,
    {
        **{f"an article {slug[:20]!r}": call("articles_get", slug=slug) for slug in ODD},
        **{f"comments of {slug[:20]!r}": call("comments_list", article=slug) for slug in ODD},
        **{f"the author {str(pk)[:12]}": call("authors_retrieve", pk=pk) for pk in HUGE},
        **{f"the picture {str(pk)[:12]}": call("media_show", media=pk) for pk in HUGE},
        **{f"comment {str(pk)[:12]}": call("moderation_hide", number=pk) for pk in HUGE},
        "a picture that is none": call(
            "media_upload", title="x", alt_text="x", data="AAAA", article=None
        ),
    },
    sites=SITES,
    callers=USER,
)
THEME.add(
    EITHER,
    {
        **{f"a search for {text[:20]!r}": call("articles_search", query=text) for text in ODD},
        **{f"page {str(page)[:12]} of authors": call("authors_list", page=page) for page in HUGE},
        **{f"page {str(page)[:12]} of pictures": call("media_list", page=page) for page in HUGE},
        **{f"a section {slug[:20]!r}": call("articles_list", section=slug) for slug in ODD},
        "a style that backtracks": call("style_check", text="a " * 40_000 + "!"),
        "a style of brackets": call("style_check", text="[" * 50_000 + "](" * 20_000),
        "a text without an end": call("style_measure", text="." * 100_000),
    },
    sites=SITES,
    callers=USER,
)
THEME.add(
    WRONG_ARGUMENTS,
    {
        "a story that is no id": call("wire_import", story="not a uuid"),
        "a day that is none": call("statistics_table", period={"start": "2026-02-30"}),
        "days before there were any": call("statistics_table", period={"start": "0000-01-01"}),
        "a status of nobody": call("articles_list", status="burnt"),
        "a limit beyond": call("articles_headlines", limit=51),
        "a limit of all digits": call("articles_headlines", limit=10**300),
        "a pause that is no number": call("archive_recount", pause="NaN"),
        "a text too long": call("style_check", text="x" * 100_001),
    },
    sites=SITES,
    callers=USER,
)
