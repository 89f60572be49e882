"""A weather service in a thread of this process: the same weather for the same place, always."""

from __future__ import annotations

import json
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from types import TracebackType
from urllib.parse import parse_qs, unquote, urlsplit
from zlib import crc32

from testproject.newsroom.weather.source import KEY

SKIES = ("clear", "cloudy", "rain", "fog")


class WeatherServer:
    """The service, on a free port: it answers inside the ``with`` block."""

    def __init__(self) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
        self._server.daemon_threads = True
        self._thread = Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> WeatherServer:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def forecast(place: str, days: int) -> dict[str, object]:
    """The weather at a place, made up of its name."""
    drawn = [crc32(f"{place} {day}".encode()) for day in range(days)]
    weather = [{"sky": SKIES[each % 4], "degrees": each % 23, "wind": each % 31} for each in drawn]
    return {"place": place, "days": weather}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Its headers and its body are two writes.
    disable_nagle_algorithm = True

    def do_GET(self) -> None:
        parts = urlsplit(self.path)
        _, kind, place = map(unquote, parts.path.split("/", 2))
        if not self._is_known() or kind != "forecasts":
            return
        if not place.istitle():
            self._answer(404, {"detail": f"No station is at {place!r}: names begin in capitals."})
            return
        days = int(parse_qs(parts.query).get("days", ["3"])[0])
        self._answer(200, forecast(place, days))

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        if self._is_known():
            self._answer(201, {"thanks": self.headers["X-Asked-By"]})

    def _is_known(self) -> bool:
        if self.headers.get("X-Key") == KEY:
            return True
        self._answer(401, {"detail": "Who are you?"})
        return False

    def _answer(self, status: int, value: object) -> None:
        written = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(written)))
        self.end_headers()
        self.wfile.write(written)

    def log_message(self, format: str, *args: object) -> None: ...
