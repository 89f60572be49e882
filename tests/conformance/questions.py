"""The tools of the conformance suite that ask the client before they answer."""

from __future__ import annotations

import json
from typing import Any

from modernrpc import RpcNamespace

from mcp_bridge import Context, mcp_tool
from mcp_bridge.exceptions import InputRequired
from mcp_bridge.protocol.input_requests import (
    CreateMessageRequest,
    FormElicitRequest,
    InputRequest,
    ListRootsRequest,
)

questions = RpcNamespace()


def form(message: str, name: str, kind: str = "string") -> FormElicitRequest:
    """Return a form with one field."""
    properties = {name: {"type": kind}}
    return FormElicitRequest(
        message, {"type": "object", "properties": properties, "required": [name]}
    )


def sampling(text: str, max_tokens: int) -> CreateMessageRequest:
    """Return one message for the client's model."""
    message = {"role": "user", "content": {"type": "text", "text": text}}
    return CreateMessageRequest([message], max_tokens)


def answers(context: Context, state: Any = None, **requests: InputRequest) -> list[Any]:
    """Return the answers to the requests; raise InputRequired for those that have none."""
    missing = {key: each for key, each in requests.items() if key not in context.input_responses}
    if missing:
        raise InputRequired(missing, tool_state=state)
    return [context.input_responses[key] for key in requests]


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_elicitation(context: Context) -> str:
    """Greet the user by the name that the user gives."""
    (name,) = answers(context, user_name=form("What is your name?", "name"))
    return f"Hello, {name['content']['name']}!"


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_sampling(context: Context) -> str:
    """Return the answer of the client's model."""
    question = sampling("What is the capital of France?", 100)
    (answer,) = answers(context, capital_question=question)
    return str(answer["content"]["text"])


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_list_roots(context: Context) -> list[str]:
    """Name the client's roots."""
    (answer,) = answers(context, client_roots=ListRootsRequest())
    return [root["uri"] for root in answer["roots"]]


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_request_state(context: Context) -> str:
    """Keep a word from one round to the next."""
    answers(context, "state-ok", confirm=form("Please confirm", "ok", "boolean"))
    return str(context.tool_state)


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_multiple_inputs(context: Context) -> str:
    """Ask for three things at once."""
    name, greeting, _ = answers(
        context,
        user_name=form("What is your name?", "name"),
        greeting=sampling("Generate a greeting", 50),
        client_roots=ListRootsRequest(),
    )
    return f"{greeting['content']['text']} {name['content']['name']}"


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_multi_round(context: Context) -> str:
    """Ask twice, one after the other."""
    (name,) = answers(context, 1, step1=form("Step 1: What is your name?", "name"))
    (color,) = answers(context, 2, step2=form("Step 2: What is your favorite color?", "color"))
    return f"{name['content']['name']} likes {color['content']['color']}."


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_tampered_state(context: Context) -> str:
    """Ask once; a changed state must not come this far."""
    answers(context, confirm=form("Please confirm", "ok", "boolean"))
    return "confirmed"


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_input_required_result_capabilities(context: Context) -> str:
    """Ask for each of these that the client has declared."""
    known: dict[str, InputRequest] = {
        "user_name": form("What is your name?", "name"),
        "greeting": sampling("Generate a greeting", 50),
    }
    declared = {
        key: each for key, each in known.items() if each.is_declared(context.client.capabilities)
    }
    return f"{len(answers(context, **declared))} answers"


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_sampling(context: Context, prompt: str) -> str:
    """Have the client's model answer."""
    (answer,) = answers(context, sampled=sampling(prompt, 100))
    return f"LLM response: {answer['content']['text']}"


def completed(context: Context, message: str, properties: dict[str, Any]) -> str:
    """Ask with a form, and name the answer."""
    required = [name for name, each in properties.items() if "default" not in each]
    schema = {"type": "object", "properties": properties, "required": required}
    (answer,) = answers(context, asked=FormElicitRequest(message, schema))
    content = json.dumps(answer.get("content", {}))
    return f"Elicitation completed: action={answer['action']}, content={content}"


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_elicitation(context: Context, message: str) -> str:
    """Ask for a name and an address."""
    texts = {"username": "User's response", "email": "User's email address"}
    properties = {name: {"type": "string", "description": each} for name, each in texts.items()}
    return completed(context, message, properties)


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_elicitation_sep1034_defaults(context: Context) -> str:
    """Ask with a form whose fields have defaults."""
    return completed(
        context,
        "Please review your data",
        {
            "name": {"type": "string", "default": "John Doe"},
            "age": {"type": "integer", "default": 30},
            "score": {"type": "number", "default": 95.5},
            "status": {
                "type": "string",
                "enum": ["active", "inactive", "pending"],
                "default": "active",
            },
            "verified": {"type": "boolean", "default": True},
        },
    )


@questions.register_procedure
@mcp_tool(public=True, read_only=True)
def test_elicitation_sep1330_enums(context: Context) -> str:
    """Ask with a form that has each kind of choice."""
    values = ["option1", "option2", "option3"]
    titled = [
        {"const": f"value{number}", "title": f"{name} Option"}
        for number, name in enumerate(("First", "Second", "Third"), 1)
    ]
    return completed(
        context,
        "Please choose",
        {
            "untitledSingle": {"type": "string", "enum": values},
            "titledSingle": {"type": "string", "oneOf": titled},
            "legacyEnum": {
                "type": "string",
                "enum": ["opt1", "opt2", "opt3"],
                "enumNames": ["Option One", "Option Two", "Option Three"],
            },
            "untitledMulti": {"type": "array", "items": {"type": "string", "enum": values}},
            "titledMulti": {"type": "array", "items": {"anyOf": titled}},
        },
    )
