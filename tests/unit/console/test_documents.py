import pytest

from console.errors import BadFile, Unusable
from console.pages.knowledge import read_document, typed_document


@pytest.mark.parametrize(
    ("name", "raw", "complaint"),
    [
        ("scan.pdf", b"%PDF-1.7 \xff\xfe\x00", "scan.pdf is not a text in UTF-8"),
        ("image.txt", b"a\x00b", "image.txt is a binary file"),
        ("empty.md", b" \n", "empty.md is empty"),
        ("", b"text", "no name"),
    ],
)
def test_a_file_that_is_no_text_is_refused_by_name(name: str, raw: bytes, complaint: str) -> None:
    with pytest.raises(BadFile, match=complaint):
        read_document(name, raw)


def test_the_folders_in_a_files_name_and_its_byte_order_mark_are_left_out() -> None:
    read = read_document("C:\\notes\\fjord.md", b"\xef\xbb\xbfThe fjord is deep.")

    assert read == {"document_id": "fjord.md", "title": "fjord.md", "text": "The fjord is deep."}


def test_a_pasted_text_without_a_title_is_called_by_its_first_line() -> None:
    assert typed_document(" ", "First line\nsecond")["title"] == "First line"
    with pytest.raises(Unusable):
        typed_document("title", "  ")
