"""Copies of a labelled run: what labels prove takes fifty of them, and each has been recorded and labelled once."""

from sqlalchemy import create_engine, text

# A row of a run and of its label with the name of its n-th copy; labels come one after another.
NTH = "left(t.run_id, 30) || lpad(n::text, 6, '0')"
LATER = "t.created_at + n * interval '1 microsecond'"
COPIED = {
    "runs": f"jsonb_build_object('run_id', {NTH}, 'document', t.document || jsonb_build_object('run_id', {NTH}))",
    "feedback": f"jsonb_build_object('run_id', {NTH}, 'feedback_id', {NTH}, 'created_at', {LATER})",
}


def copy_labelled_run(database_url: str, run_id: str, count: int) -> None:
    """Store a run and its label again, until there are `count` of both; the run must be in the database."""
    with create_engine(database_url).begin() as connection:
        for table, of_row in COPIED.items():
            rows = f"SELECT (jsonb_populate_record(t, {of_row})).* FROM router.{table} t, generate_series(2, :count) n"
            query = text(f"INSERT INTO router.{table} {rows} WHERE t.run_id = :run_id")
            copied = connection.execute(query, {"count": count, "run_id": run_id})
            assert copied.rowcount == count - 1, f"{run_id} is not in router.{table}"
