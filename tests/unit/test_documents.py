"""Files as documents, without a router."""

from pathlib import Path

import pytest

from cli.records.documents import MOST_CHARACTERS, MOST_DOCUMENTS, Document, batches, read_documents


def test_a_folder_gives_all_texts_under_it_in_order(tmp_path: Path) -> None:
    for name, text in {"b.txt": "B.", "a/x.md": "# The title\n\nText.", "a/.hidden/y.md": "no", "c.png": "no"}.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)

    reading = read_documents([tmp_path])

    assert reading.problems == []
    assert [(document.title, document.text) for document in reading.documents] == [
        ("The title", "# The title\n\nText."),
        ("b.txt", "B."),
    ]
    assert reading.documents[0].document_id == (tmp_path / "a" / "x.md").as_posix()


def test_each_line_of_a_jsonl_file_is_a_document(tmp_path: Path) -> None:
    file = tmp_path / "some.jsonl"
    file.write_text(
        '{"text": "One.", "title": "T", "document_id": "one", "labels": {"by": "ann"}}\n\n{"text": "Two."}\n'
    )

    reading = read_documents([file])

    assert reading.documents == [
        Document(text="One.", title="T", document_id="one", labels={"by": "ann"}),
        Document(text="Two."),
    ]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"", "is empty"),
        ("a.md", b" \n ", "is empty"),
        ("a.txt", b"ab\x00cd", "is binary, not text"),
        ("a.txt", b"ab\xff", "is not UTF-8 (byte 2)"),
        ("a.pdf", b"%PDF", "is none of .txt, .md, .jsonl"),
        ("a.jsonl", b'{"text": "x"}\n{"text": ', "line 2: it is not JSON"),
        ("a.jsonl", b'{"text": "x", "colour": "red"}', "line 1: colour"),
        ("a.jsonl", b'["x"]', "line 1: "),
        ("a.jsonl", b'{"text": " "}', "line 1: the text is empty"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_reason(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    (tmp_path / "fine.txt").write_text("Fine.")

    reading = read_documents([tmp_path / name, tmp_path / "fine.txt"])

    [problem] = reading.problems
    assert problem.startswith(f"{tmp_path / name}: ")
    assert says in problem
    assert [document.text for document in reading.documents] == ["Fine."]


def test_a_file_that_is_not_there_and_an_empty_folder_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()

    reading = read_documents([tmp_path / "none.txt", tmp_path / "empty"])

    assert reading.problems == [
        f"{tmp_path}/none.txt: No such file or directory",
        f"{tmp_path}/empty: no file under it ends in .txt, .md, .jsonl",
    ]


def test_a_mark_of_byte_order_is_no_text(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_bytes(b"\xef\xbb\xbf# Title\n")

    assert read_documents([tmp_path / "a.md"]).documents[0].title == "Title"


def test_requests_stay_small() -> None:
    small = [Document(text="x")] * (MOST_DOCUMENTS + 1)
    large = [Document(text="x" * MOST_CHARACTERS), Document(text="x" * (MOST_CHARACTERS + 1)), Document(text="x")]

    assert [len(batch) for batch in batches(small)] == [MOST_DOCUMENTS, 1]
    assert [len(batch) for batch in batches(large)] == [1, 1, 1]
    assert list(batches([])) == []
