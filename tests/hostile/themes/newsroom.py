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

# Acts of the admin on one row.
ON_ROWS = ("get", "history", "change")
KEYS = (*ODD, *HUGE, "1/../2", "%2e%2e", "_2F", "1;2", "0x1", "1e0", " ")

THEME = Theme("newsroom")
THEME.add(
    NOT_THERE,
    {
        **{
            f"{act} of the row {str(key)[:12]!r}": call(f"newsroom_article_{act}", id=key)
            for act in ON_ROWS
            for key in KEYS
        },
        **{
            f"an action on {str(key)[:12]!r}": call("newsroom_article_publish", ids=[key, 1])
            for key in KEYS
        },
        "an action on 101 rows": call("newsroom_article_publish", ids=[*range(1, 102)]),
        **{
            f"an inline {str(row)[:30]}": call("newsroom_article_change", id=1, comments=[row] * 2)
            for row in (
                *({"id": 1}, {"id": -1}, {"id": "abc"}, {"DELETE": True}, {"text": "x"}),
                *({"id": 1, "DELETE": True}, {"article": 2}, {"comments-TOTAL_FORMS": "99"}),
            )
        },
        **{
            f"the field {name!r} of a form": call("newsroom_article_change", id=1, **{name: "x"})
            for name in (
                *("status", "_saveasnew", "_popup", "_to_field", "csrfmiddlewaretoken", "pk"),
                *("comments-0-text", "comments-TOTAL_FORMS", "word_count", "_state", "author_id"),
            )
        },
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
        **{
            f"{name} {str(key)[:12]!r} in the admin": call("newsroom_article_find", **{name: key})
            for name, keys in (("search", ODD), ("section", KEYS), ("author", KEYS))
            for key in keys
        },
        **{
            f"page {str(page)[:12]} of the admin": call("newsroom_article_find", page=page)
            for page in HUGE
        },
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
