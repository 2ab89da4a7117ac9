"""OTLP requests with a distinct secret in every place that can hold text, made from the protocol.

The places are those of the descriptors, so that a field that OTLP gets is planted too.
"""

import base64
import json
import os
import time
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import Message
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue

from otelchain_collector.signals import METRIC_KINDS, METRICS, Signal

_ID_BYTES = {"trace_id": 16, "span_id": 8, "parent_span_id": 8}


class Planter:
    """Makes secrets of a provider key's published shape, and remembers where each was put."""

    def __init__(self) -> None:
        self.places: list[str] = []

    def secret(self, place: str) -> str:
        """Return a new secret for a place."""
        self.places.append(place)
        return f"sk-proj-{_mark(len(self.places) - 1)}Cd2Ef3Gh4Ij5Kl6Mn7Op8Qr9St"

    def found_in(self, content: bytes) -> list[str]:
        """Return the places whose secret is in some bytes, also in Base64 (values of bytes)."""
        return [
            place
            for number, place in enumerate(self.places)
            if any(form in content for form in _forms(_mark(number)))
        ]

    def request(self, signal: Signal) -> Any:
        """Return a request of a signal with a secret in every place."""
        request = signal.request()
        resource = getattr(request, signal.resources).add()
        scope = getattr(resource, signal.scopes).add()
        self._fill(resource, "resource", {signal.scopes})
        self._fill(scope, "scope", {signal.records})
        records = getattr(scope, signal.records)
        if signal is METRICS:
            for kind in METRIC_KINDS:
                self._fill(records.add(), kind, set(METRIC_KINDS) - {kind})
        else:
            self._fill(records.add(), signal.noun, set())
        return request

    def _fill(self, message: Message, path: str, without: set[str]) -> None:
        for field in message.DESCRIPTOR.fields:
            if field.name in without or field.name.endswith("_strindex"):
                continue
            place = f"{path}.{field.name}"
            value = getattr(message, field.name)
            repeated = not isinstance(value, (str, bytes, int, float, bool, Message))
            if field.type == field.TYPE_STRING:
                secret = self.secret(place)
                value.append(secret) if repeated else setattr(message, field.name, secret)
            elif field.name in _ID_BYTES:
                setattr(message, field.name, os.urandom(_ID_BYTES[field.name]))
            elif field.name.endswith("time_unix_nano"):
                setattr(message, field.name, time.time_ns())
            elif field.message_type is None:
                continue
            elif field.message_type.name == "KeyValue":
                value.extend(self._attributes(place))
            elif field.message_type.name == "AnyValue":
                value.CopyFrom(self._nested(place))
            else:
                self._fill(value.add() if repeated else value, place, {"exemplars.none"})
                if not repeated:
                    value.SetInParent()

    def _attributes(self, place: str) -> Iterator[KeyValue]:
        yield KeyValue(key="text", value=AnyValue(string_value=self.secret(f"{place} text")))
        yield KeyValue(key=f"k {self.secret(f'{place} key')}", value=AnyValue(int_value=1))
        text = json.dumps({"a": [f"line\n{self.secret(f'{place} json')}"]})
        yield KeyValue(key="json", value=AnyValue(string_value=json.dumps({"inner": text})))
        content = self.secret(f"{place} bytes").encode()
        yield KeyValue(key="bytes", value=AnyValue(bytes_value=content))
        yield KeyValue(key="nested", value=self._nested(place))
        # A name alone makes a value secret.
        named = self.secret(f"{place} named")[8:]
        yield KeyValue(key="db.password", value=AnyValue(string_value=named))

    def _nested(self, place: str) -> AnyValue:
        value = AnyValue()
        inner = value.array_value.values.add().kvlist_value.values.add()
        inner.key = f"k {self.secret(f'{place} nested key')}"
        inner.value.array_value.values.add().string_value = self.secret(f"{place} nested text")
        inner.value.array_value.values.add().bytes_value = (
            b"\xff " + self.secret(f"{place} nested bytes").encode()
        )
        return value


def _mark(number: int) -> str:
    return f"Q{number:04d}xAb"


def _forms(mark: str) -> Iterator[bytes]:
    yield mark.encode()
    for offset in range(3):
        # What of Base64 is the same whatever stands around.
        encoded = base64.b64encode(b"\0" * offset + mark.encode())
        yield encoded[4 if offset else 0 : len(encoded) - 4]


def as_otlp_json(message: Message) -> dict[str, Any]:
    """Return a message by OTLP's rules for JSON, with every letter of a text escaped."""
    entry: dict[str, Any] = {}
    for field, value in message.ListFields():
        repeated = not isinstance(value, (str, bytes, int, float, bool, Message))
        items = [_json_value(field.name, item) for item in (value if repeated else [value])]
        entry[field.json_name] = items if repeated else items[0]
    return entry


def _json_value(name: str, value: Any) -> Any:
    if isinstance(value, Message):
        return as_otlp_json(value)
    if isinstance(value, bytes):
        return value.hex() if name in _ID_BYTES else base64.b64encode(value).decode()
    return str(value) if isinstance(value, int) and name.endswith("_nano") else value
