"""Invalid credentials: 401 with a challenge, before anything else is read."""

from __future__ import annotations

from tests.hostile.cases import Theme
from tests.hostile.drafts import body, call, header, meta, method, values
from tests.hostile.wanted import ECHOED, PARAMS, Http, Refused

CHALLENGE = {"WWW-Authenticate": r'Bearer realm="mcp"(, error="invalid_token")?'}
REFUSED = Refused(401, status=401, echoes=False, headers=CHALLENGE)
ANONYMOUS = ("anonymous",)

THEME = Theme("credentials")
THEME.add(
    REFUSED,
    {
        title: header("Authorization", *given)
        for title, given in {
            "no secret": ("Bearer",),
            "an empty secret": ("Bearer ",),
            "a secret of nobody": ("Bearer nobody",),
            "a secret that begins like one": ("Bearer mcp_" + "A" * 43,),
            "the beginning alone": ("Bearer mcp_",),
            "an expired token": ("Bearer {expired}",),
            "a revoked token": ("Bearer {revoked}",),
            "a token of a user who is gone": ("Bearer {inactive}",),
            "a letter behind a token": ("Bearer {token}x",),
            "a blank inside": ("Bearer mcp_ {token}",),
            "a token twice": ("Bearer {token} {token}",),
            "two headers": ("Bearer {token}", "Bearer {token}"),
            "two tokens": ("Bearer {token}, Bearer {other}",),
            "another scheme": ("Basic dXNlcjpwYXNz",),
            "a token by another scheme": ("Token {token}",),
            "a scheme alone": ("Negotiate",),
            "no scheme": ("{token}",),
            "a token in quotation marks": ('Bearer "{token}"',),
            "words for the challenge": ('Bearer x", error="none", resource_metadata="http://e',),
            "letters beyond ASCII": ("Bearer mcp_\xe9\xff",),
            "4,000 letters": ("Bearer mcp_" + "x" * 4000,),
            "commas alone": (",,,",),
            "a web token without a signature": ("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiIxIn0.",),
            "an injection": ("Bearer mcp_' OR '1'='1",),
        }.items()
    },
    callers=ANONYMOUS,
)
THEME.add(
    REFUSED,
    {
        "with a body that is no JSON": body("{"),
        "with a body of two megabytes": body(b" " * 2**21),
        "with another type": header("Content-Type", "text/plain"),
        "with another method": method("nothing/known"),
        "with a tool that is not there": call("nothing"),
    },
    header("Authorization", "Bearer nobody"),
    callers=ANONYMOUS,
)
THEME.add(
    Http((405,), {"Allow": "POST"}, foreign=True),
    {"a bad credential with another verb": values(verb="GET")},
    header("Authorization", "Bearer nobody"),
    callers=ANONYMOUS,
)
# A tool for users alone stays unknown, even if a user's token is sent in another place.
THEME.add(
    Refused(-32602, status=200, message="Unknown tool: erase"),
    {
        "a token in the query": values(target="/mcp?access_token={token}&token={token}"),
        "a token in a cookie": header("Cookie", "access_token={token}; token={token}"),
        "a token in a header of its own": header("X-API-Key", "{token}"),
        "a token for a proxy": header("Proxy-Authorization", "Bearer {token}"),
        "a token with an underscore": header("X_Authorization", "Bearer {token}"),
        "a token in the message": lambda draft: meta("x", draft.secrets["token"])(draft),
        "a user in a header": (header("Remote-User", "caller"), header("X-Remote-User", "caller")),
    },
    call("erase", word="x"),
    callers=ANONYMOUS,
)
THEME.add(
    ECHOED,
    {
        "a token as it is": header("Authorization", "Bearer {token}"),
        "the scheme in small letters": header("Authorization", "bearer {token}"),
        "the scheme in capital letters": header("Authorization", "BEARER {token}"),
    },
    callers=ANONYMOUS,
)
THEME.add(
    PARAMS,
    {"a token for other tools": header("Authorization", "Bearer {limited}")},
    callers=ANONYMOUS,
)
