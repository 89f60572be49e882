"""Resources, prompts, completion and skills: bad URIs, arguments and references."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import LEGACY, method
from tests.hostile.wanted import PARAMS, Either, Refused

NOT_FOUND = Refused(-32602, status=200, message="Resource not found", data=("uri",))
ARTICLE = {"type": "ref/resource", "uri": "articles://{slug}"}
REVIEW = {"type": "ref/prompt", "name": "review"}
# Only the newsroom has any of them.
SITES = ("newsroom",)
URIS = (
    *("articles://a%2Fb", "articles://../x", "articles://%2e%2e/x", "articles://", "articles:///"),
    *("articles://x#top", "articles://x?y=1", "ARTICLES://x", "articles://a%00b", "articles://%ff"),
    *("articles://{slug}", "articles://%", "articles://%2", "articles:x", "file:///etc/passwd"),
    *("articles://" + "x" * 2_100, "x" * 3_000, "", " ", "\0", "articles://\u202ex"),
    *("articles://no-such-article", "sections://all/", "sections://ALL", "skill://x/SKILL.md"),
    *("skill://edit-an-article", "skill://edit-an-article/", "skill://edit-an-article//SKILL.md"),
    *("skill://edit-an-article/../SKILL.md", "skill://edit-an-article/%2e%2e/SKILL.md"),
    *("skill://edit-an-article/references/../SKILL.md", "skill://edit-an-article/.env"),
    *("skill://edit-an-article/{+path}", "skill://edit-an-article/SKILL.md/x"),
)

REFUSED = Either((PARAMS, Refused(-32602, status=200, data=("errors",)), NOT_FOUND))

THEME = Theme("primitives")
# The headers of a modern request name them too, and servers limit those.
THEME.add(
    NOT_FOUND,
    {f"a URI of {size}": method("resources/read", uri="x" * size) for size in (10_000, 500_000)},
    eras=(LEGACY,),
    sites=SITES,
)
THEME.add(
    NOT_FOUND,
    {f"the URI {uri[:40]!r} of {len(uri)}": method("resources/read", uri=uri) for uri in URIS},
    sites=SITES,
)
THEME.add(
    NOT_FOUND,
    {
        f"the skill {uri[:40]!r} of {len(uri)}": method("skills/get", uri=uri)
        for uri in (*URIS, "skill://edit-an-article/references/house-style.md", "sections://all")
    },
    sites=SITES,
)
THEME.add(
    NOT_FOUND,
    {
        f"the folder {uri[:40]!r} of {len(uri)}": method("resources/directory/read", uri=uri)
        for uri in (*URIS, "skill://edit-an-article/SKILL.md", "sections://all")
        if uri != "skill://edit-an-article"
    },
    sites=SITES,
)
THEME.add(
    PARAMS,
    {
        f"{name} of {uri!r}": method(name, uri=uri)
        for name in ("resources/read", "skills/get", "resources/directory/read")
        for uri in (5, None, True, [], {}, ["articles://x"])
    },
    sites=SITES,
)
THEME.add(
    REFUSED,
    {
        f"the prompt {name!r} with {str(given)[:40]}": method(
            "prompts/get", name=name, arguments=given
        )
        for name, given in (
            *(("review", each) for each in ({}, {"slug": 5}, {"slug": None}, {"slug": ["x"]})),
            *(("review", each) for each in ([], "slug", 5, {"slug": "x", "tone": "rude"})),
            *(("review", {"slug": "x", more: "y"}) for more in ("other", "self", "__class__", "")),
            *(("headline", {"slug": "x", "count": each}) for each in ("0", "1e9", "NaN", "\u0661")),
            *(
                ("Review", {}),
                ("", {}),
                ("x" * 3_000, {}),
                (5, {}),
                (None, {}),
                ("resource:x", {}),
            ),
        )
    },
    sites=SITES,
)
THEME.add(
    REFUSED,
    {
        f"the completion {title}": method("completion/complete", **params)
        for title, params in {
            "of nothing": {},
            "of a text": {"ref": "articles://{slug}", "argument": {"name": "slug", "value": ""}},
            "of another type": {"ref": {"type": "ref/tool", "name": "add"}},
            "of a URI": {"ref": {**ARTICLE, "uri": "articles://x"}},
            "of an unknown prompt": {"ref": {**REVIEW, "name": "none"}},
            "without an argument": {"ref": ARTICLE},
            "of an unknown argument": {"ref": ARTICLE, "argument": {"name": "x", "value": ""}},
            "of a number": {"ref": ARTICLE, "argument": {"name": "slug", "value": 5}},
            "of 10 kB": {"ref": ARTICLE, "argument": {"name": "slug", "value": "x" * 10_000}},
            "in a text": {
                **{"ref": REVIEW, "argument": {"name": "slug", "value": ""}},
                "context": "x",
            },
            "with numbers": {
                **{"ref": REVIEW, "argument": {"name": "slug", "value": ""}},
                "context": {"arguments": {"tone": 5}},
            },
        }.items()
    },
    sites=SITES,
)
