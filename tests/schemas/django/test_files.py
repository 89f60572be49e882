"""Files in forms and serializers as parameters, through the endpoint."""

from __future__ import annotations

import base64
import io
import json
from typing import Any

import pytest
from django import forms
from django.core.files.uploadedfile import UploadedFile
from PIL import Image
from rest_framework import serializers

from mcp_bridge.testing import text_of
from mcp_bridge.testing.checked import CheckedClient
from mcp_bridge.testing.serving import serve
from tests.calls.test_arguments import errors_of
from tests.support.serving import messages, served


class LetterForm(forms.Form):
    prefix = "l"
    subject = forms.CharField()
    text = forms.FileField(max_length=20)
    picture = forms.ImageField(required=False)


class LetterSerializer(serializers.Serializer[Any]):
    subject = serializers.CharField()
    text = serializers.FileField(max_length=20)
    picture = serializers.ImageField(required=False, allow_null=True)


class PostSerializer(serializers.Serializer[Any]):
    letters = LetterSerializer(many=True)


def encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def png() -> bytes:
    written = io.BytesIO()
    Image.new("RGB", (2, 3)).save(written, "PNG")
    return written.getvalue()


HELLO = {"name": "hello.txt", "data": encoded(b"Hello\xff")}
GOOD = {"subject": "Hi", "text": HELLO}
PICTURE = {"name": "dot.png", "data": encoded(png())}


def described(cleaned: Any) -> str:
    text, picture = cleaned["text"], cleaned.get("picture")
    assert isinstance(text, UploadedFile)
    return json.dumps(
        [text.name, text.read().hex(), text.content_type, text.size, picture and picture.image.size]
    )


def send_form(data: LetterForm) -> str:
    """Send."""
    return described(data.cleaned_data)


def send_serializer(data: LetterSerializer) -> str:
    """Send."""
    return described(data.validated_data)


SENDERS = pytest.mark.parametrize("send", [send_form, send_serializer])


@SENDERS
def test_file_is_an_object_of_name_and_base64(send: Any, settings: Any) -> None:
    serve(settings, send)
    assert messages("mcp_bridge.E006") == []
    data = served(send.__name__).input_schema["properties"]["data"]
    assert data["required"] == ["subject", "text"]
    file = data["properties"]["text"]
    assert (file["type"], file["additionalProperties"]) == ("object", False)
    assert file["required"] == ["name", "data"]
    assert file["properties"]["data"] == {
        "type": "string",
        "contentEncoding": "base64",
        "description": "The content of the file.",
    }
    assert list(file["properties"]) == ["name", "data", "mimeType"]


@SENDERS
@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ({}, ["hello.txt", "48656c6c6fff", "text/plain", 6, None]),
        (
            {"text": {**HELLO, "mimeType": "text/x-own"}},
            ["hello.txt", "48656c6c6fff", "text/x-own", 6, None],
        ),
        (
            {"text": {**HELLO, "name": "../../etc/hello"}},
            ["hello", "48656c6c6fff", "application/octet-stream", 6, None],
        ),
        ({"picture": None}, ["hello.txt", "48656c6c6fff", "text/plain", 6, None]),
        ({"picture": PICTURE}, ["hello.txt", "48656c6c6fff", "text/plain", 6, [2, 3]]),
    ],
)
def test_procedure_receives_an_upload(
    send: Any, sent: Any, received: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, send)
    result = modern.call_tool(send.__name__, {"data": {**GOOD, **sent}})
    assert json.loads(text_of(result)) == received


@SENDERS
@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ({"text": "SGVsbG8="}, [("/data/text", "model_type")]),
        ({"text": {**HELLO, "data": "?"}}, [("/data/text/data", "bytes_invalid_encoding")]),
        ({"text": {"name": "a"}}, [("/data/text/data", "missing")]),
        ({"text": {**HELLO, "name": ".."}}, [("/data/text", "file_name")]),
        ({"text": {**HELLO, "data": ""}}, [("/data/text", "empty")]),
        ({"text": {**HELLO, "name": "a" * 30}}, [("/data/text", "max_length")]),
        ({"picture": HELLO}, [("/data/picture", "invalid_image")]),
        ({"picture": {**PICTURE, "name": "a.exe"}}, [("/data/picture", "invalid_extension")]),
    ],
)
def test_invalid_file_is_an_argument_error(
    send: Any, sent: Any, expected: Any, modern: CheckedClient, settings: Any
) -> None:
    serve(settings, send)
    result = modern.call_tool(send.__name__, {"data": {**GOOD, **sent}})
    assert errors_of(result) == expected


def test_files_of_nested_serializers_are_uploads(modern: CheckedClient, settings: Any) -> None:
    def post(data: PostSerializer) -> int:
        """Post."""
        return sum(letter["text"].size for letter in data.validated_data["letters"])

    serve(settings, post)
    result = modern.call_tool("post", {"data": {"letters": [GOOD, GOOD]}})
    assert text_of(result) == "12"
