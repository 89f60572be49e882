"""An article as Markdown."""

from __future__ import annotations

from testproject.newsroom.models import Article


def as_markdown(article: Article, *, with_comments: bool = False) -> str:
    """Title, facts, summary and text of an article; with its comments where asked for."""
    parts = [f"# {article.title}", _facts(article)]
    if article.summary:
        parts.append(f"> {article.summary}")
    parts.append(article.body)
    if with_comments:
        parts.append("## Comments")
        comments = article.comments.filter(hidden=False).select_related("user")
        lines = [f"- **{comment.user}**: {comment.text}" for comment in comments]
        parts.append("\n".join(lines) or "No comments yet.")
    return "\n\n".join(parts)


def _facts(article: Article) -> str:
    facts = [f"By {article.author}", str(article.section), article.get_status_display()]
    if article.published_at:
        facts.append(f"{article.published_at:%d %B %Y}")
    if article.tags:
        facts.append(", ".join(article.tags))
    return f"*{' · '.join(facts)}*"
