"""
A fake model: it asks for the calls of a plan, one by one, and says that it is done.

It speaks the interfaces of the large providers as far as a client needs them to run tools:
Anthropic's messages, OpenAI's responses and chat completions, Gemini's generateContent. The first
part of the path says which client asks, so that what each shows to its model can be read
afterwards.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Call = tuple[str, dict[str, Any]]


class Model:
    """The calls planned for each client, the tools it has offered, and the results it has sent."""

    def __init__(self) -> None:
        self.plans: dict[str, list[Call]] = {}
        self.approvals: dict[str, Callable[[], bool]] = {}
        self.tools: dict[str, dict[str, Any]] = {}
        self.told: dict[str, list[str]] = {}
        self.pictures: set[str] = set()
        self.address = ""

    def expect(self, client: str, calls: list[Call], approved: Callable[[], bool]) -> str:
        """
        Plan the calls of a client; return the address to give to it.

        After the last, ``approved`` is asked whether a person approves it; then it is repeated.
        """
        self.plans[client] = calls
        self.approvals[client] = approved
        return f"{self.address}/{client}"

    def answer(self, client: str, tools: dict[str, Any], told: list[str]) -> Call | None:
        """Return the next call, by the tool's own name here; None if there is nothing to call."""
        self.told[client] = max(self.told.get(client, []), told, key=len)
        plan = self.plans[client]
        if not tools or len(told) > len(plan):
            return None
        if len(told) == len(plan) and not self.approvals[client]():
            return None
        self.tools.setdefault(client, {}).update(tools)
        name, arguments = plan[min(len(told), len(plan) - 1)]
        found = [each for each in tools if each.endswith(name)]
        return (found[0], arguments) if found else None


@contextmanager
def scripted() -> Iterator[Model]:
    """Serve a model on a free port."""
    model = Model()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
            _, client, path = self.path.split("?")[0].split("/", 2)
            # The beginning of every PNG in base64.
            if "iVBORw0KGgo" in json.dumps(body):
                model.pictures.add(client)
            for part, speak in INTERFACES.items():
                if part in path:
                    kind, text = speak(model, client, body, path)
                    return self.reply(200, kind, text)
            return self.reply(404, "application/json", "{}")

        def do_GET(self) -> None:
            listed = {"object": "list", "data": [{"id": "gate", "object": "model"}]}
            self.reply(200, "application/json", json.dumps(listed))

        def do_HEAD(self) -> None:
            self.reply(200, "application/json", "")

        def reply(self, status: int, kind: str, text: str) -> None:
            body = text.encode()
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing on the terminal."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    model.address = f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield model
    finally:
        server.shutdown()


def events(*each: dict[str, Any], named: bool = True, last: str = "") -> tuple[str, str]:
    """Return server-sent events; ``named`` by their type."""
    lines = [
        (f"event: {data['type']}\n" if named else "") + f"data: {json.dumps(data)}\n\n"
        for data in each
    ]
    return "text/event-stream", "".join(lines) + last


def text_of(content: Any) -> str:
    """Return the text of content blocks, in any of the interfaces; an image as its type."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return " ".join(text_of(each) for each in content)
    if isinstance(content, dict):
        kind = str(content.get("type", ""))
        if "image" in kind:
            return "[image]"
        return str(content["text"]) if "text" in content else json.dumps(content)
    return ""


def anthropic(model: Model, client: str, body: Any, path: str) -> tuple[str, str]:
    if "count_tokens" in path:
        return "application/json", json.dumps({"input_tokens": 1})
    blocks = [
        block
        for message in body["messages"]
        if isinstance(message["content"], list)
        for block in message["content"]
    ]
    told = [text_of(each.get("content")) for each in blocks if each["type"] == "tool_result"]
    tools = {each["name"]: each.get("input_schema") for each in body.get("tools", [])}
    call = model.answer(client, tools, told)
    usage = {"input_tokens": 1, "output_tokens": 1}
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": body.get("model", "gate"),
        "stop_sequence": None,
        "usage": usage,
    }
    stop = "tool_use" if call else "end_turn"
    if call:
        name, arguments = call
        start = {"type": "tool_use", "id": f"toolu_{len(told)}", "name": name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(arguments)}
        whole = {**start, "input": arguments}
    else:
        start, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": "Done."}
        whole = {"type": "text", "text": "Done."}
    if not body.get("stream"):
        whole_message = {**message, "content": [whole], "stop_reason": stop}
        return "application/json", json.dumps(whole_message)
    begun = {**message, "content": [], "stop_reason": None}
    ended = {"stop_reason": stop, "stop_sequence": None}
    return events(
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": ended, "usage": usage},
        {"type": "message_stop"},
    )


def responses(model: Model, client: str, body: Any, path: str) -> tuple[str, str]:
    items = body["input"] if isinstance(body["input"], list) else []
    told = [text_of(each["output"]) for each in items if each.get("type") == "function_call_output"]
    tools: dict[str, Any] = {}
    spaces: dict[str, str] = {}
    for each in body.get("tools", []):
        for tool in each.get("tools", [each]):
            if "name" in tool:
                tools[tool["name"]] = tool.get("parameters")
                if "tools" in each:
                    spaces[tool["name"]] = each["name"]
    call = model.answer(client, tools, told)
    item: dict[str, Any]
    if call:
        item = {
            "type": "function_call",
            "id": f"fc_{len(told)}",
            "call_id": f"call_{len(told)}",
            "name": call[0],
            "arguments": json.dumps(call[1]),
            "status": "completed",
        }
        if call[0] in spaces:
            item["namespace"] = spaces[call[0]]
    else:
        content = [{"type": "output_text", "text": "Done.", "annotations": []}]
        item = {"type": "message", "id": "msg_1", "role": "assistant", "content": content}
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": None, "output_tokens_details": None}  # type: ignore[dict-item]
    response = {"id": "resp_1", "object": "response", "status": "completed", "usage": usage}
    if not body.get("stream"):
        return "application/json", json.dumps({**response, "output": [item]})
    return events(
        {"type": "response.created", "response": {**response, "status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": item},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": {**response, "output": [item]}},
    )


def chat(model: Model, client: str, body: Any, path: str) -> tuple[str, str]:
    told = [text_of(each["content"]) for each in body["messages"] if each["role"] == "tool"]
    functions = [each["function"] for each in body.get("tools", []) if "function" in each]
    tools = {each["name"]: each.get("parameters") for each in functions}
    call = model.answer(client, tools, told)
    said: dict[str, Any] = {"role": "assistant", "content": None if call else "Done."}
    if call:
        function = {"name": call[0], "arguments": json.dumps(call[1])}
        each = {"index": 0, "id": f"call_{len(told)}", "type": "function", "function": function}
        said["tool_calls"] = [each]
    stop = "tool_calls" if call else "stop"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    shell = {"id": "chat_1", "created": 1, "model": body.get("model", "gate"), "usage": usage}
    if not body.get("stream"):
        choice = {"index": 0, "message": said, "finish_reason": stop}
        whole = {**shell, "object": "chat.completion", "choices": [choice]}
        return "application/json", json.dumps(whole)
    shell["object"] = "chat.completion.chunk"
    return events(
        {**shell, "choices": [{"index": 0, "delta": said, "finish_reason": None}]},
        {**shell, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
        named=False,
        last="data: [DONE]\n\n",
    )


def gemini(model: Model, client: str, body: Any, path: str) -> tuple[str, str]:
    if "countTokens" in path:
        return "application/json", json.dumps({"totalTokens": 1})
    parts = [part for content in body["contents"] for part in content.get("parts", [])]
    told = [
        text_of(json.dumps(part["functionResponse"]["response"]))
        + ("[image]" if "inlineData" in json.dumps(part) else "")
        for part in parts
        if "functionResponse" in part
    ]
    tools = {
        each["name"]: each.get("parametersJsonSchema", each.get("parameters"))
        for tool in body.get("tools", [])
        for each in tool.get("functionDeclarations", [])
    }
    call = model.answer(client, tools, told)
    part = (
        {"functionCall": {"name": call[0], "args": call[1], "id": f"call_{len(told)}"}}
        if call
        else {"text": "Done."}
    )
    content = {"role": "model", "parts": [part]}
    counts = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    answer = {
        "candidates": [{"content": content, "finishReason": "STOP", "index": 0}],
        "usageMetadata": counts,
        "modelVersion": "gate",
    }
    if "stream" in path:
        return events(answer, named=False)
    return "application/json", json.dumps(answer)


INTERFACES = {
    "messages": anthropic,
    "chat/completions": chat,
    "responses": responses,
    "enerateContent": gemini,
    "countTokens": gemini,
}
