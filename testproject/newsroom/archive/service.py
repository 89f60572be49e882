"""The archive's own server, without generated code; in earnest it would be another team's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import grpc
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message_factory import GetMessageClass
from google.rpc.code_pb2 import INVALID_ARGUMENT, RESOURCE_EXHAUSTED
from google.rpc.error_details_pb2 import BadRequest, RetryInfo
from google.rpc.status_pb2 import Status
from grpc_status import rpc_status

from mcp_bridge.ext.grpc.descriptors import Descriptors
from testproject.newsroom.archive import DESCRIPTORS

SERVICE: Final = "fairhaven.archive.v1.PrintArchive"
PAGES: Final = (
    ("1962-03-14/3", 2, "New lamp for the harbour light"),
    ("1962-03-14/8", 3, "Rowers win by a length"),
    ("1987-11-02/1", 1, "The bridge opens at last"),
    ("1999-08-12/2", 2, "Harbour closed for a whale"),
)


class PrintArchive:
    """The methods of the service, named as they are; ``user`` is who the site says calls."""

    def __init__(self) -> None:
        self.methods = {
            method.name: method for method in Descriptors(DESCRIPTORS.read_bytes()).methods()
        }
        self.orders: list[tuple[str, str]] = []

    def answer(self, method: str, **fields: Any) -> Any:
        return GetMessageClass(self.methods[method].output_type)(**fields)

    def find_pages(self, request: Any, user: str, context: grpc.ServicerContext) -> Any:
        found = [
            {"id": each, "section": section, "headline": headline}
            for each, section, headline in PAGES
            if request.words.lower() in headline.lower() and request.section in (0, section)
        ]
        most = request.limit if request.HasField("limit") else 10
        return self.answer("FindPages", pages=found[:most], total=len(found))

    def list_issues(self, request: Any, user: str, context: grpc.ServicerContext) -> Iterator[Any]:
        if not 1901 <= request.year <= 2020:
            context.abort(grpc.StatusCode.NOT_FOUND, f"There is no issue of {request.year}.")
        day = datetime(request.year, 1, 1, tzinfo=UTC)
        while day.year == request.year:
            yield self.answer("ListIssues", printed=day, pages=12)
            day += timedelta(days=7)

    def order_scan(self, request: Any, user: str, context: grpc.ServicerContext) -> Any:
        if not 100 <= (request.resolution or 300) <= 600:
            wrong = BadRequest.FieldViolation(
                field="resolution", description="has to be from 100 to 600"
            )
            refuse(context, INVALID_ARGUMENT, "Wrong.", BadRequest(field_violations=[wrong]))
        if request.page not in [each for each, _, _ in PAGES]:
            context.abort(grpc.StatusCode.NOT_FOUND, f"There is no page {request.page}.")
        if (request.page, user) in self.orders:
            refuse(
                context,
                RESOURCE_EXHAUSTED,
                "You have ordered that page today.",
                RetryInfo(retry_delay=Duration(seconds=3600)),
            )
        self.orders.append((request.page, user))
        ready = datetime.now(UTC) + timedelta(days=1)
        return self.answer("OrderScan", page=request.page, ordered_by=user, ready=ready)


def refuse(context: grpc.ServicerContext, code: int, text: str, detail: Any) -> None:
    """End the call with a status that says more. Raises, as ``context.abort`` does."""
    status = Status(code=code, message=text)
    status.details.add().Pack(detail)
    context.abort_with_status(rpc_status.to_status(status))


@contextmanager
def served(archive: PrintArchive, address: str = "127.0.0.1:0") -> Iterator[str]:
    """The archive, served from threads of this process; the address that it has."""
    handlers = {}
    for name, run in (
        ("FindPages", archive.find_pages),
        ("ListIssues", archive.list_issues),
        ("OrderScan", archive.order_scan),
    ):
        method = archive.methods[name]
        make: Any = (
            grpc.unary_stream_rpc_method_handler
            if method.server_streaming
            else grpc.unary_unary_rpc_method_handler
        )
        handlers[name] = make(
            _for_user(run),
            GetMessageClass(method.input_type).FromString,
            lambda message: message.SerializeToString(),
        )
    server = grpc.server(ThreadPoolExecutor(4))
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(SERVICE, handlers)])
    port = server.add_insecure_port(address)
    server.start()
    try:
        yield f"127.0.0.1:{port}"
    finally:
        server.stop(None).wait()


def _for_user(run: Callable[..., Any]) -> Callable[[Any, grpc.ServicerContext], Any]:
    def handle(request: Any, context: grpc.ServicerContext) -> Any:
        sent = dict(context.invocation_metadata())
        return run(request, sent.get("x-user-bin", b"").decode(), context)

    return handle
