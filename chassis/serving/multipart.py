"""A form with a file is read as it comes, by python-multipart, so that no file is held in memory or on disk."""

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from kernel.errors import MalformedRequest

# Size of the text of a field at most [bytes], and parts of a form at most [count].
MOST_FIELD_BYTES, MOST_PARTS = 4096, 16


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A field of a form has a text."""

    name: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormFile:
    """A file of a form begins; its bytes follow."""

    name: str
    filename: str


FormPiece = FormField | FormFile | bytes


async def form_pieces(content_type: str, body: AsyncIterator[bytes]) -> AsyncGenerator[FormPiece, None]:
    """Yield the fields and files of a form, in their order.

    Args:
        content_type: The header `Content-Type`.
        body: The parts of the body as they come.

    Raises:
        MalformedRequest: For a body that is no form, or a part that is no field and no file.
    """
    kind, options = parse_options_header(content_type)
    if kind != b"multipart/form-data" or not options.get(b"boundary"):
        raise _malformed("send it as multipart/form-data with a boundary")
    reader = _FormReader(options[b"boundary"])
    async for data in body:
        reader.write(data)
        while reader.pieces:
            yield reader.pieces.popleft()
    if not reader.is_whole:
        raise _malformed("it ends too early")


def _malformed(problem: str) -> MalformedRequest:
    return MalformedRequest(f"the body is no form: {problem}", field="body")


class _FormReader:
    """A reader takes bytes, and has the pieces that they made."""

    def __init__(self, boundary: bytes) -> None:
        self.pieces: deque[FormPiece] = deque()
        self.is_whole = False
        self._parts = 0
        self._header_name = self._header_text = self._disposition = b""
        self._field_name: str | None = None  # None: the part is a file
        self._text = bytearray()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin_part,
                    "on_part_data": self._data,
                    "on_part_end": self._end_part,
                    "on_header_field": self._name,
                    "on_header_value": self._value,
                    "on_header_end": self._end_header,
                    "on_headers_finished": self._begin_content,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _malformed(str(error)) from error

    def write(self, data: bytes) -> None:
        """Take bytes.

        Raises:
            MalformedRequest: When they make no form.
        """
        try:
            self._parser.write(data)
        except FormParserError as error:
            raise _malformed(str(error)) from error

    def _begin_part(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise _malformed(f"it has more than {MOST_PARTS} parts")
        self._disposition = b""

    def _name(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def _value(self, data: bytes, start: int, end: int) -> None:
        self._header_text += data[start:end]

    def _end_header(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            self._disposition = self._header_text
        self._header_name = self._header_text = b""

    def _begin_content(self) -> None:
        _, options = parse_options_header(self._disposition)
        name = options.get(b"name", b"").decode(errors="replace")
        if not name:
            raise _malformed("a part has no name")
        self._text.clear()
        if b"filename" in options:
            self._field_name = None
            self.pieces.append(FormFile(name=name, filename=options[b"filename"].decode(errors="replace")))
        else:
            self._field_name = name

    def _data(self, data: bytes, start: int, end: int) -> None:
        if self._field_name is None:
            self.pieces.append(data[start:end])
        elif len(self._text) + end - start > MOST_FIELD_BYTES:
            raise _malformed(f"the field {self._field_name[:100]!r} has more than {MOST_FIELD_BYTES} bytes")
        else:
            self._text += data[start:end]

    def _end_part(self) -> None:
        if self._field_name is not None:
            self.pieces.append(FormField(name=self._field_name, text=self._text.decode(errors="replace")))

    def _end(self) -> None:
        self.is_whole = True
