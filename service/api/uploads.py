"""Text files that come in as multipart forms: checked and stored while they arrive."""

from __future__ import annotations

import codecs
import io
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from service.blobs import BlobStore, BlobTooLargeError, BlobWriter
from service.errors import (
    InvalidRequestError,
    MediaTypeError,
    TooLargeError,
    field_problem,
    invalid_field,
    show,
)
from service.specs import sorted_alphabet

FIELD_LIMIT = 1024  # bytes of a field beside the file
FIELDS_LIMIT = 16


class TextCheck:
    """Counts the characters of UTF-8 bytes that come in parts, as ``text_facts`` reads them.

    Refuses what isn't text.
    """

    def __init__(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8-sig")("strict")
        self._decode = io.IncrementalNewlineDecoder(decoder, translate=True).decode
        self._known: set[str] = set()
        self.size = 0
        self.characters = 0

    def feed(self, part: bytes, final: bool = False) -> None:
        """Takes the next bytes. MediaTypeError where they are no text."""
        try:
            text = self._decode(part, final)
        except UnicodeDecodeError as error:
            rule = f"must be text in UTF-8, but {error.reason} near byte {self.size + error.start}"
            raise field_problem(MediaTypeError, "file", "binary", rule, code="not-text") from error
        self.size += len(part)
        self.characters += len(text)
        self._known.update(text)
        if "\0" in text:
            rule = "must be text, but holds a zero byte"
            raise field_problem(MediaTypeError, "file", "binary", rule, code="not-text")

    @property
    def alphabet(self) -> str:
        """The different characters that came."""
        return sorted_alphabet(self._known)


@dataclass
class _Part:
    """The part of the form that is being read."""

    name: str = ""
    filename: str | None = None
    value: bytearray = field(default_factory=bytearray)


class Form:
    """The callbacks of the multipart parser: the file goes to the store, other fields into memory."""

    def __init__(self, store: BlobStore, limit: int) -> None:
        self._store = store
        self._limit = limit
        self._part = _Part()
        self._header_name = bytearray()
        self._header_value = bytearray()
        self.writer: BlobWriter | None = None
        self.check = TextCheck()
        self.filename = ""
        self.fields: dict[str, str] = {}
        self.ended = False

    def on_part_begin(self) -> None:
        self._part = _Part()

    def on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._header_name += data[start:end]

    def on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._header_value += data[start:end]

    def on_header_end(self) -> None:
        if self._header_name.lower() == b"content-disposition":
            _, options = parse_options_header(bytes(self._header_value))
            self._part.name = options.get(b"name", b"").decode("utf-8", "replace")
            if b"filename" in options:
                self._part.filename = options[b"filename"].decode("utf-8", "replace")
        self._header_name.clear()
        self._header_value.clear()

    def on_headers_finished(self) -> None:
        if self._part.name == "file" and self._part.filename is not None:
            if self.writer is not None:
                raise invalid_field("file", self._part.filename, "must be given once")
            self.filename = self._part.filename
            self.writer = self._store.writer(self._limit)
        elif len(self.fields) >= FIELDS_LIMIT:
            raise invalid_field(self._part.name, "", f"a form may have {FIELDS_LIMIT} fields")

    def on_part_data(self, data: bytes, start: int, end: int) -> None:
        part = data[start:end]
        if self._part.name == "file" and self.writer is not None:
            self.check.feed(part)
            self.writer.write(part)
        else:
            self._part.value += part
            if len(self._part.value) > FIELD_LIMIT:
                raise invalid_field(self._part.name, "", f"must have at most {FIELD_LIMIT} bytes")

    def on_part_end(self) -> None:
        if self._part.name != "file":
            self.fields[self._part.name] = self._part.value.decode("utf-8", "replace")

    def on_end(self) -> None:
        self.ended = True

    def parser(self, boundary: bytes) -> MultipartParser:
        """A parser that calls this object."""
        return MultipartParser(
            boundary,
            {
                "on_part_begin": self.on_part_begin,
                "on_header_field": self.on_header_field,
                "on_header_value": self.on_header_value,
                "on_header_end": self.on_header_end,
                "on_headers_finished": self.on_headers_finished,
                "on_part_data": self.on_part_data,
                "on_part_end": self.on_part_end,
                "on_end": self.on_end,
            },
        )


async def store_upload(
    content_type: str, body: AsyncIterator[bytes], store: BlobStore, limit: int
) -> tuple[Form, BlobWriter]:
    """Reads a form to its end. The caller commits the writer, or aborts it."""
    kind, options = parse_options_header(content_type)
    boundary = options.get(b"boundary", b"")
    if kind != b"multipart/form-data" or not boundary:
        rule = "must be multipart/form-data with a boundary"
        raise field_problem(MediaTypeError, "Content-Type", show(content_type), rule)
    form = Form(store, limit)
    try:
        parser = form.parser(boundary)
        async for part in body:
            parser.write(part)
        parser.finalize()
        if not form.ended:
            raise field_problem(InvalidRequestError, "body", "cut off", "must hold the whole form")
        if form.writer is None:
            raise invalid_field("file", "missing", "the form must have a part with this name and a filename")
        form.check.feed(b"", final=True)
        if form.check.characters == 0:
            raise invalid_field("file", "empty", "must hold at least one character")
    except BaseException as error:
        if form.writer is not None:
            form.writer.abort()
        if isinstance(error, FormParserError):
            raise field_problem(InvalidRequestError, "body", "no multipart form", str(error)) from error
        if isinstance(error, BlobTooLargeError):
            rule = f"must have at most {limit} bytes"
            raise field_problem(TooLargeError, "file", str(error), rule) from error
        raise
    return form, form.writer
