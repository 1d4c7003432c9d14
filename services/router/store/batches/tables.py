"""These tables hold the files of callers, and the batches that answer their lines."""

from datetime import datetime
from typing import Any

from sqlalchemy import BigInteger, Boolean, DateTime, ForeignKey, Index, Integer, LargeBinary, String
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, mapped_column

from services.router.store.tables import SCHEMA, RouterTable

ACTIVE = "status IN ('validating', 'in_progress', 'finalizing', 'cancelling')"
_TIME = DateTime(timezone=True)


class FileRow(RouterTable):
    """A file is ready once all of it is stored; its lines are rows, each with its line end.

    One whose `expires_at` is over is gone for its key, and deleted in pieces.
    """

    __tablename__ = "files"
    __table_args__ = (
        Index("ix_files_key", "key_name", "file_id"),
        Index("ix_files_expires", "expires_at", postgresql_where="expires_at IS NOT NULL"),
    )

    file_id: Mapped[str] = mapped_column(String(48), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    purpose: Mapped[str] = mapped_column(String(16))
    filename: Mapped[str] = mapped_column(String)
    is_ready: Mapped[bool] = mapped_column(Boolean)
    size_bytes: Mapped[int] = mapped_column(BigInteger, server_default="0")
    line_count: Mapped[int] = mapped_column(BigInteger, server_default="0")
    created_at: Mapped[datetime] = mapped_column(_TIME, index=True)
    expires_at: Mapped[datetime | None] = mapped_column(_TIME)


class FileLineRow(RouterTable):
    """A line of a file."""

    __tablename__ = "file_lines"

    file_id: Mapped[str] = mapped_column(
        String(48), ForeignKey(f"{SCHEMA}.files.file_id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class BatchRow(RouterTable):
    """A batch with its status, and who takes its next step until when."""

    __tablename__ = "batches"
    __table_args__ = (
        Index("ix_batches_key", "key_name", "batch_id"),
        Index("ix_batches_active", "batch_id", postgresql_where=ACTIVE),
    )

    batch_id: Mapped[str] = mapped_column(String(48), primary_key=True)
    key_name: Mapped[str] = mapped_column(String)
    endpoint: Mapped[str] = mapped_column(String(64))
    input_file_id: Mapped[str] = mapped_column(String(48))
    output_file_id: Mapped[str | None] = mapped_column(String(48))
    error_file_id: Mapped[str | None] = mapped_column(String(48))
    labels: Mapped[dict[str, Any] | None] = mapped_column(JSONB(none_as_null=True))
    errors: Mapped[list[Any] | None] = mapped_column(JSONB(none_as_null=True))
    status: Mapped[str] = mapped_column(String(16))
    created_at: Mapped[datetime] = mapped_column(_TIME, index=True)
    expires_at: Mapped[datetime] = mapped_column(_TIME)
    in_progress_at: Mapped[datetime | None] = mapped_column(_TIME)
    finalizing_at: Mapped[datetime | None] = mapped_column(_TIME)
    completed_at: Mapped[datetime | None] = mapped_column(_TIME)
    failed_at: Mapped[datetime | None] = mapped_column(_TIME)
    expired_at: Mapped[datetime | None] = mapped_column(_TIME)
    cancelling_at: Mapped[datetime | None] = mapped_column(_TIME)
    cancelled_at: Mapped[datetime | None] = mapped_column(_TIME)
    output_expires_s: Mapped[int | None] = mapped_column(Integer)
    total_count: Mapped[int] = mapped_column(Integer, server_default="0")
    completed_count: Mapped[int] = mapped_column(Integer, server_default="0")
    failed_count: Mapped[int] = mapped_column(Integer, server_default="0")
    claim: Mapped[str] = mapped_column(String(36), server_default="")
    claimed_until: Mapped[datetime | None] = mapped_column(_TIME)
    served_at: Mapped[datetime | None] = mapped_column(_TIME)


class BatchLineRow(RouterTable):
    """A line of a batch is done, or due at `due_at`: a process that has claimed it has until then.

    `attempts` counts its claims, `failures` those in which what it needs failed, and `losses` the last ones whose lease
    ran out.
    """

    __tablename__ = "batch_lines"
    __table_args__ = (
        Index("ix_batch_lines_left", "batch_id", "due_at", "number", postgresql_where="NOT is_done"),
        Index("ix_batch_lines_claim", "claim", postgresql_where="claim <> ''"),
    )

    batch_id: Mapped[str] = mapped_column(
        String(48), ForeignKey(f"{SCHEMA}.batches.batch_id", ondelete="CASCADE"), primary_key=True
    )
    number: Mapped[int] = mapped_column(Integer, primary_key=True)
    custom_id: Mapped[str] = mapped_column(String)
    is_done: Mapped[bool] = mapped_column(Boolean, server_default="false")
    attempts: Mapped[int] = mapped_column(Integer, server_default="0")
    failures: Mapped[int] = mapped_column(Integer, server_default="0")
    losses: Mapped[int] = mapped_column(Integer, server_default="0")
    claim: Mapped[str] = mapped_column(String(36), server_default="")
    due_at: Mapped[datetime] = mapped_column(_TIME)
