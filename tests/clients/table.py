"""The outcomes of the runs, and the table that the documentation makes of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results.json")
PAGE = ROOT / "docs" / "clients" / "README.md"
# A call that waits for a person, if its client does not get the answer that it is pending.
_INSTEAD = {
    "asks its user": "its user is asked, and it runs",
    "waits as a task": "a task, which runs once it is approved",
}
BEGIN, END = "<!-- written by make clients -->\n", "<!-- until here -->"


def write(rows: dict[str, dict[str, Any]]) -> None:
    """Store the outcomes of these clients, and rewrite the table."""
    RESULTS.write_text(json.dumps({**stored(), **rows}, indent=1, ensure_ascii=False) + "\n")
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + rendered() + END + rest.partition(END)[2])


def stored() -> dict[str, dict[str, Any]]:
    """Return the results of earlier runs, by client."""
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    return found


def rendered() -> str:
    """Return the two tables: the abilities of each client, and its display of each call."""
    from tests.clients.roster import CLIENTS, NOT_RUN

    rows = stored()
    seen = [rows[client.name] for client in CLIENTS if client.name in rows]
    lines = [
        "| Client | Version | Speaks | Asks its user | Images | Asks for progress | Run under |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in seen:
        asks = "declared" if row["elicitation"] else "no"
        if row["wait"]["how"] == "asks its user":
            asks = "yes"
        can = ["yes" if row[name] else "no" for name in ("images", "progress")]
        cells = [f"[{row['title']}]({row['page']}.md)", row["version"], row["revision"], asks, *can]
        lines.append(f"| {' | '.join(cells)} | {', '.join(row['servers']) or 'fails'} |")
    for title, page, why in NOT_RUN:
        lines.append(f"| [{title}]({page}.md) | not run: {why} | | | | | |")
    lines += ["", "| Client | Of a wrong argument | Of a call that waits | Of the same, approved"]
    lines[-1] += " and repeated | Of a bad token |"
    lines += ["|---|---|---|---|---|"]
    for row in seen:
        wait = _INSTEAD.get(row["wait"]["how"]) or cell(row["wait"]["text"])
        repeated = cell(row["wait"]["repeated"]) if row["wait"]["repeated"] else ""
        cells = [cell(row["wrong"]), wait, repeated, cell(row["bad"])]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def cell(text: str) -> str:
    """Return a text as one cell of a table, cut if it is long."""
    line = " ".join(text.split()).replace("`", "'").replace("|", "\\|")
    return f"`{line[:140]}…`" if len(line) > 140 else f"`{line}`"
