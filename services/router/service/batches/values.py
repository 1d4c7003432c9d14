"""These values are files, batches and their lines."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import Field

from kernel.values import value
from services.router.core.batch_states import BatchStatus

FILE, BATCH = "file-", "batch_"
INPUT, OUTPUT = "batch", "batch_output"


@value
class StoredFile:
    """A stored file.

    Attributes:
        file_id: Its name.
        purpose: `batch`, or `batch_output` for results.
        filename: The name that its caller gave.
        size_bytes: Its size [bytes].
        line_count: Its lines [count].
        created_at: When it was begun.
        expires_at: When it is deleted, where that is stated.
    """

    file_id: str
    purpose: str
    filename: str
    size_bytes: int
    line_count: int
    created_at: datetime
    expires_at: datetime | None = None


@value
class RequestBatch:
    """A batch.

    Attributes:
        batch_id: Its name.
        key_name: Name of the API key that it belongs to.
        endpoint: Path that answers its lines.
        input_file_id: The file with its lines.
        output_file_id: The file with the replies; None while there is none.
        error_file_id: The file with the errors; None while there is none.
        labels: What its caller noted.
        errors: What is wrong with the input file.
        status: Its state.
        times: When it entered each state, by state; and when it was created and expires.
        total: Its lines [count].
        completed: Lines with a reply [count].
        failed: Lines with an error [count].
        output_expires_s: Time after which the files of results are deleted [s]; None: with the batch.
        has_ended: Whether it has ended.
    """

    batch_id: str
    key_name: str
    endpoint: str
    input_file_id: str
    output_file_id: str | None
    error_file_id: str | None
    labels: Mapping[str, str] | None
    errors: Sequence[Mapping[str, Any]] | None
    status: BatchStatus
    times: Mapping[str, datetime | None]
    total: int
    completed: int
    failed: int
    output_expires_s: int | None
    has_ended: bool = False


@value
class ExpiresAfter:
    """This rule says when a file is deleted, counted from its creation."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Field(ge=3600, le=2_592_000)]


Label = Annotated[str, Field(max_length=512)]
LabelName = Annotated[str, Field(max_length=64)]


@value
class CreateBatchRequest:
    """This request begins a batch."""

    input_file_id: str
    endpoint: str
    completion_window: str
    metadata: Annotated[Mapping[LabelName, Label], Field(max_length=16)] | None = None
    output_expires_after: ExpiresAfter | None = None


@value
class ListBatchesRequest:
    """This request asks for a page of batches, newest first."""

    after: str = ""
    limit: Annotated[int, Field(ge=1, le=100)] = 20


@value
class ListFilesRequest:
    """This request asks for a page of files."""

    after: str = ""
    limit: Annotated[int, Field(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: str = ""


@value
class KeptResult:
    """This value says what became of the result of a line.

    Attributes:
        is_stored: Whether it was stored; a line that had one already keeps that.
        ends_lines: Whether its batch waits for no further line, so that its next step may be due.
    """

    is_stored: bool
    ends_lines: bool = False


@value
class ClaimedLine:
    """A claimed line is answered by the process that claimed it.

    Attributes:
        batch_id: Its batch.
        number: Its number in the input file [>= 1].
        custom_id: The name that its caller gave.
        key_name: Name of the API key that the batch belongs to.
        endpoint: Path that answers it.
        attempts: Attempts to answer it, this one included [count, >= 1].
        failures: Those in which what it needs failed [count].
        losses: The last ones whose lease ran out, with the process that had it, as it seems [count].
        content: The line.
    """

    batch_id: str
    number: int
    custom_id: str
    key_name: str
    endpoint: str
    attempts: int
    failures: int
    losses: int
    content: bytes

    @property
    def name(self) -> tuple[str, int]:
        """Return the name of the line among all."""
        return self.batch_id, self.number
