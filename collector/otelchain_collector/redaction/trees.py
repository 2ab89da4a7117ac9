"""OTLP's AnyValue as a tree that a redactor can walk, and the redacted tree back."""

from typing import Any

from opentelemetry.proto.common.v1.common_pb2 import AnyValue


class BytesText(str):
    """Bytes, as the text that may be in them: what a redactor leaves alone stays as it arrived."""

    __slots__ = ("content",)
    content: bytes

    def __new__(cls, content: bytes) -> "BytesText":  # noqa: PYI034 - Self needs Python 3.11
        """Read bytes as UTF-8; what is none becomes U+FFFD."""
        text = super().__new__(cls, content.decode(errors="replace"))
        text.content = content
        return text


def tree_of(any_value: AnyValue) -> Any:
    """Return str, int, float, bool, BytesText, list, dict, or None for an empty value.

    Of two equal keys the last wins, as it does in the store.
    """
    kind = any_value.WhichOneof("value")
    if kind == "array_value":
        return [tree_of(item) for item in any_value.array_value.values]
    if kind == "kvlist_value":
        return {entry.key: tree_of(entry.value) for entry in any_value.kvlist_value.values}
    if kind == "bytes_value":
        return BytesText(any_value.bytes_value)
    return None if kind is None or kind not in _PLAIN else getattr(any_value, kind)


_PLAIN = {"string_value", "int_value", "double_value", "bool_value"}


def fill(any_value: AnyValue, tree: Any) -> None:
    """Set a value to what a tree says."""
    any_value.Clear()
    if isinstance(tree, BytesText):
        any_value.bytes_value = tree.content
    elif isinstance(tree, str):
        # A lone surrogate may come out of the escapes of JSON, which protobuf cannot hold.
        any_value.string_value = tree.encode(errors="replace").decode()
    elif isinstance(tree, bool):
        any_value.bool_value = tree
    elif isinstance(tree, int):
        any_value.int_value = tree
    elif isinstance(tree, float):
        any_value.double_value = tree
    elif isinstance(tree, dict):
        any_value.kvlist_value.SetInParent()
        for key, value in tree.items():
            entry = any_value.kvlist_value.values.add(key=key)
            if value is not None:
                fill(entry.value, value)
            else:
                entry.value.SetInParent()
    elif tree is not None:
        any_value.array_value.SetInParent()
        for value in tree:
            fill(any_value.array_value.values.add(), value)
