"""Random gRPC connections, frame by frame: calls of every kind, mixed, cancelled and cut anywhere.

One call of each is good and is never cancelled: it has to be acknowledged. A connection is
`lawful` when a client that follows RFC 9113 could have sent it; any other may also be ended, with
the error code of a protocol error.
"""

import socket
from collections.abc import Callable, Iterator
from random import Random
from time import sleep
from typing import NamedTuple

from h2.errors import ErrorCodes
from h2.frame_buffer import FrameBuffer
from hpack import Decoder, Encoder
from hyperframe.frame import (
    ContinuationFrame,
    DataFrame,
    Frame,
    GoAwayFrame,
    HeadersFrame,
    PingFrame,
    PriorityFrame,
    RstStreamFrame,
    SettingsFrame,
    WindowUpdateFrame,
)

from http2_client import HEAD, PREFACE, connect, message
from otlp_requests import body, span

TOKEN = "sixteenlettersorso"
#: What the collector has to be started with.
MAX_REQUEST_BYTES = 100_000

_HEAD = {**HEAD, "authorization": f"Bearer {TOKEN}"}
# What replaces headers, and the answer: status of HTTP, and of gRPC.
_HEADS = (
    ({}, None),
    ({}, None),
    ({":path": "/a.Service/Method"}, ("200", "12")),
    ({"grpc-encoding": "br"}, ("200", "12")),
    ({"authorization": "Bearer wrong"}, ("200", "16")),
    ({"x-long": "x" * 20_000}, ("200", "8")),
    ({"content-type": "text/plain"}, ("415", "")),
    ({":method": "GET"}, ("405", "")),
)
_SPAN = message(body(span()))
# The bytes of a call, and its answer.
_BODIES = (
    (_SPAN, ("200", "0")),
    (message(b""), ("200", "0")),
    (b"\0\x7f\xff\xff\xff", ("200", "8")),
    (_SPAN[:-1], ("200", "3")),
    (_SPAN * 2, ("200", "3")),
    (b"", ("200", "3")),
    (message(b"", flag=1), ("200", "13")),
)
_PROTOCOL_ERRORS = frozenset(
    {
        ErrorCodes.PROTOCOL_ERROR,
        ErrorCodes.FLOW_CONTROL_ERROR,
        ErrorCodes.STREAM_CLOSED,
        ErrorCodes.FRAME_SIZE_ERROR,
        ErrorCodes.COMPRESSION_ERROR,
    }
)

_Step = Callable[["_Writer"], list[Frame]]
Answer = tuple[str, str]


class Case(NamedTuple):
    """What to send in each piece, and the answers that have to come."""

    pieces: list[bytes]
    pauses: list[float]
    answers: dict[int, Answer]
    good: int


class Outcome(NamedTuple):
    """The answers that came, and how the connection ended: None when it did not."""

    answers: dict[int, Answer]
    goaway: int | None
    is_closed: bool


# --- making them -------------------------------------------------------------------------------


class _Writer:
    """The state of a connection that the next frame depends on."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self._encoder = Encoder()
        self._next_id = 1

    def new_id(self) -> int:
        self._next_id += 2
        return self._next_id - 2

    def headers(self, stream_id: int, fields: dict[str, str], *, end: bool) -> list[Frame]:
        """Return HEADERS, and CONTINUATION frames that nothing may come between."""
        block = self._encoder.encode(list(fields.items()))
        cuts = sorted(self.random.choices(range(len(block)), k=self.random.choice((0, 0, 1, 3))))
        first, *rest = [
            block[start:stop] for start, stop in zip([0, *cuts], [*cuts, len(block)], strict=True)
        ]
        frames: list[HeadersFrame | ContinuationFrame] = [HeadersFrame(stream_id, first)]
        frames += [ContinuationFrame(stream_id, each) for each in rest]
        if end:
            frames[0].flags.add("END_STREAM")
        frames[-1].flags.add("END_HEADERS")
        return list(frames)


class _Call:
    """One call: its steps, in their order, and what it is answered."""

    def __init__(self, random: Random, *, is_good: bool) -> None:
        self.stream_id = 0
        replaced, refusal = _HEADS[0] if is_good else random.choice(_HEADS)
        data, answer = _BODIES[0] if is_good else random.choice(_BODIES)
        how = random.choice(("last", "empty", "trailers", "headers" if not data else "last"))
        self.answer: Answer | None = refusal or answer
        self.steps: list[_Step] = [self._begin({**_HEAD, **replaced}, end=how == "headers")]
        cuts = sorted(random.choices(range(len(data) + 1), k=random.randrange(4)))
        pieces = [data[a:b] for a, b in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        if how != "headers":
            for index, piece in enumerate(pieces):
                last = index == len(pieces) - 1 and how == "last"
                self.steps.append(self._data(piece, random.choice((0, 0, 9)), end=last))
        if how == "empty":
            self.steps.append(self._data(b"", 0, end=True))
        if how == "trailers":
            self.steps.append(self._trailers)
        for _ in range(random.randrange(3)):
            self.steps.insert(random.randint(1, len(self.steps)), self._window)
        if not is_good and random.random() < 0.6:
            del self.steps[random.randint(1, len(self.steps)) :]
            self.steps.append(self._reset)
            self.answer = None

    def _begin(self, fields: dict[str, str], *, end: bool) -> _Step:
        def step(writer: _Writer) -> list[Frame]:
            self.stream_id = writer.new_id()
            return writer.headers(self.stream_id, fields, end=end)

        return step

    def _data(self, data: bytes, padding: int, *, end: bool) -> _Step:
        def step(_: _Writer) -> list[Frame]:
            frame = DataFrame(self.stream_id, data, pad_length=padding)
            frame.flags |= {"PADDED"} if padding else set()
            frame.flags |= {"END_STREAM"} if end else set()
            return [frame]

        return step

    def _trailers(self, writer: _Writer) -> list[Frame]:
        return writer.headers(self.stream_id, {"x-trailer": "1"}, end=True)

    def _window(self, writer: _Writer) -> list[Frame]:
        return [WindowUpdateFrame(self.stream_id, writer.random.randint(1, 100))]

    def _reset(self, _: _Writer) -> list[Frame]:
        return [RstStreamFrame(self.stream_id, ErrorCodes.CANCEL)]


def _between(random: Random) -> Frame:
    """Return a frame of the connection, such as may come at any time."""
    return random.choice(
        (
            PingFrame(0, b"12345678"),
            WindowUpdateFrame(0, random.randint(1, 100)),
            _settings(random.choice((0, 3, 100, 65_535))),
            SettingsFrame(0, flags=["ACK"]),
            PriorityFrame(2 * random.randrange(10) + 1),
        )
    )


def _settings(window: int) -> SettingsFrame:
    return SettingsFrame(0, {SettingsFrame.INITIAL_WINDOW_SIZE: window})


def _unlawful(writer: _Writer, calls: list[_Call]) -> list[Frame]:
    """Return frames on a stream that may have ended, or never begun, or that are wrong anyhow."""
    random = writer.random
    known = [call.stream_id for call in calls if call.stream_id and call is not calls[0]]
    stream_id = random.choice([*known, *known, 2, 2 * random.randrange(100) + 201])
    return random.choice(
        (
            lambda: [DataFrame(stream_id, b"more")],
            lambda: [DataFrame(stream_id, b"", flags=["END_STREAM"])],
            lambda: writer.headers(stream_id, _HEAD, end=random.random() < 0.5),
            lambda: writer.headers(stream_id, {"X-Upper": "1"}, end=True),
            lambda: [WindowUpdateFrame(stream_id, 2**31 - 1)],
            lambda: [WindowUpdateFrame(stream_id, 1)],
            lambda: [RstStreamFrame(stream_id, ErrorCodes.CANCEL)],
            lambda: [ContinuationFrame(stream_id, b"", flags=["END_HEADERS"])],
            lambda: [HeadersFrame(stream_id, b"\xff\xff\xff", flags=["END_HEADERS"])],
            lambda: [DataFrame(stream_id, bytes(20_000))],
        )
    )()


def make(seed: int, *, lawful: bool) -> Case:
    """Make a connection."""
    random = Random(seed)
    writer = _Writer(random)
    calls = [_Call(random, is_good=index == 0) for index in range(random.randint(2, 8))]
    sent: list[Frame] = [_settings(random.choice((0, 100, 65_535)))]
    waiting = list(calls)
    while waiting:
        # Often the same one again, so that what belongs together also comes together.
        call = random.choice(waiting)
        for _ in range(random.choice((1, 1, 2, 9))):
            if call.steps:
                sent += call.steps.pop(0)(writer)
        waiting = [each for each in waiting if each.steps]
        if random.random() < 0.2:
            sent.append(_between(random))
        if not lawful and random.random() < 0.15:
            sent += _unlawful(writer, calls)
    sent.append(_settings(65_535))
    frames = [_bytes_of(frame) for frame in sent]
    frames[0] = PREFACE + frames[0]
    pieces = _cut(frames, random)
    pauses = [random.choice((0, 0, 0, 0.001, 0.01)) for _ in pieces]
    # What is unlawful may also end a call of another kind, without an answer.
    known = calls if lawful else calls[:1]
    answers = {call.stream_id: call.answer for call in known if call.answer}
    return Case(pieces, pauses, answers, calls[0].stream_id)


def _bytes_of(frame: Frame) -> bytes:
    return bytes(frame.serialize())


def _cut(frames: list[bytes], random: Random) -> list[bytes]:
    """Cut what is sent: not at all, between frames, or anywhere."""
    how = random.randrange(3)
    if how == 0:
        return [b"".join(frames)]
    if how == 1:
        groups = sorted(random.choices(range(len(frames)), k=3))
        spans = zip([0, *groups], [*groups, len(frames)], strict=True)
        return [b"".join(frames[start:stop]) for start, stop in spans]
    whole = b"".join(frames)
    places = sorted(random.choices(range(len(whole)), k=random.randrange(1, 12)))
    return [whole[a:b] for a, b in zip([0, *places], [*places, len(whole)], strict=True)]


# --- what comes of them ------------------------------------------------------------------------


def send(address: str, case: Case) -> Outcome:
    """Send a connection, and read until the answers have come that have to."""
    with connect(address, 30) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        try:
            for piece, pause in zip(case.pieces, case.pauses, strict=True):
                connection.sendall(piece)
                sleep(pause)
        except ConnectionError:
            pass  # What it has said is still to be read.
        return _read(connection, set(case.answers))


def _read(connection: socket.socket, awaited: set[int]) -> Outcome:
    heads: dict[int, dict[str, str]] = {}
    goaway = None
    decoder = Decoder()
    for frame in _frames(connection):
        if isinstance(frame, GoAwayFrame):
            goaway = frame.error_code
        elif isinstance(frame, HeadersFrame):
            heads.setdefault(frame.stream_id, {}).update(decoder.decode(frame.data))
        if isinstance(frame, RstStreamFrame) or "END_STREAM" in frame.flags:
            awaited.discard(frame.stream_id)
        if not awaited:
            return Outcome(_answers(heads), goaway, is_closed=False)
    return Outcome(_answers(heads), goaway, is_closed=True)


def _frames(connection: socket.socket) -> Iterator[Frame]:
    buffer = FrameBuffer()
    buffer.max_frame_size = 2**14
    try:
        while data := connection.recv(65_536):
            buffer.add_data(data)
            yield from buffer
    except ConnectionError:
        pass


def _answers(heads: dict[int, dict[str, str]]) -> dict[int, Answer]:
    return {
        stream_id: (head[":status"], head.get("grpc-status", ""))
        for stream_id, head in heads.items()
    }


def check_lawful(case: Case, outcome: Outcome) -> None:
    """Every call that was not cancelled has its answer, whatever became of its neighbours."""
    assert (outcome.goaway, outcome.is_closed) == (None, False)
    got = {stream_id: outcome.answers.get(stream_id) for stream_id in case.answers}
    assert got == case.answers


def check_unlawful(case: Case, outcome: Outcome) -> None:
    """The good call is acknowledged, or its client is told what protocol error there was."""
    if outcome.goaway is None:
        assert outcome.answers.get(case.good) == case.answers[case.good]
    else:
        assert outcome.goaway in _PROTOCOL_ERRORS
