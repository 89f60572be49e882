"""Ten procedures of a helpdesk."""

from __future__ import annotations

from typing import Annotated

from helpdesk.models import FollowUp, KBItem, Queue, Ticket
from helpdesk.user import HelpdeskUser
from modernrpc.server import RpcServer
from pydantic import Field

from mcp_bridge import Context, ToolError, mcp_tool
from mcp_bridge.schemas.django import Lookup

server = RpcServer()
WORKING = "helpdesk.change_ticket"
Number = Annotated[int, Field(ge=1, description="The ticket's number.")]
QueueBySlug = Annotated[Queue, Lookup("slug")]


def accessible(context: Context, number: int) -> Ticket:
    """Return a ticket that the caller may work on."""
    ticket = HelpdeskUser(context.user).accessible_tickets().filter(pk=number).first()
    if ticket is None:
        raise ToolError(f"There is no ticket {number} for you: tickets_list shows yours.")
    return ticket


@server.register_procedure
@mcp_tool(read_only=True)
def queues_list() -> dict[str, str]:
    """List the queues that take tickets: slug and title."""
    return dict(Queue.objects.filter(allow_public_submission=True).values_list("slug", "title"))


@server.register_procedure
@mcp_tool(read_only=True)
def articles_list() -> list[str]:
    """List the titles of the knowledge base."""
    return list(KBItem.objects.filter(enabled=True).values_list("title", flat=True))


@server.register_procedure
@mcp_tool
def ticket_open(context: Context, queue: QueueBySlug, title: str, text: str = "") -> str:
    """Open a ticket."""
    ticket = Ticket.objects.create(
        queue=queue, title=title, description=text, submitter_email=context.user.email
    )
    return str(ticket)


@server.register_procedure
@mcp_tool(read_only=True)
def my_tickets(context: Context) -> list[str]:
    """List the tickets that the caller has opened."""
    return [str(each) for each in Ticket.objects.filter(submitter_email=context.user.email)]


@server.register_procedure
@mcp_tool(read_only=True)
def ticket_status(context: Context, ticket: Number) -> str:
    """Return the status of one of the caller's tickets."""
    return Ticket.objects.get(pk=ticket, submitter_email=context.user.email).get_status_display()


@server.register_procedure
@mcp_tool(read_only=True, permissions=WORKING)
def tickets_list(context: Context, queue: QueueBySlug, open_only: bool = True) -> list[str]:
    """List a queue's tickets."""
    tickets = HelpdeskUser(context.user).accessible_tickets().filter(queue=queue)
    if open_only:
        tickets = tickets.filter(status__in=Ticket.OPEN_STATUSES)
    return [str(ticket) for ticket in tickets]


@server.register_procedure
@mcp_tool(read_only=True, permissions=WORKING)
def ticket_read(context: Context, ticket: Number) -> dict[str, str]:
    """Read a ticket."""
    found = accessible(context, ticket)
    return {"title": found.title, "text": found.description or "", "status": found.get_status}


@server.register_procedure
@mcp_tool(permissions=WORKING)
def ticket_answer(context: Context, ticket: Number, text: str) -> str:
    """Answer a ticket."""
    found = accessible(context, ticket)
    FollowUp.objects.create(ticket=found, user=context.user, comment=text, public=True)
    return f"{found} is answered."


@server.register_procedure
@mcp_tool(permissions=WORKING, confirm=True)
def ticket_resolve(context: Context, ticket: Number, text: str) -> str:
    """Resolve a ticket."""
    found = accessible(context, ticket)
    found.resolution, found.status = text, Ticket.RESOLVED_STATUS
    found.save()
    return found.get_status_display()


@server.register_procedure
@mcp_tool(permissions="helpdesk.change_queue", idempotent=True)
def queue_close(queue: QueueBySlug) -> str:
    """Stop a queue from taking tickets."""
    queue.allow_public_submission = False
    queue.save()
    return f"{queue.title} takes no more tickets."
