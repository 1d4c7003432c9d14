import pytest

from console.errors import BadFile, InvalidInput
from console.pages.knowledge import read_document, typed_document


@pytest.mark.parametrize(
    ("name", "raw", "complaint"),
    [
        ("scan.pdf", b"%PDF-1.7 \xff\xfe\x00", "scan.pdf is not UTF-8 text"),
        ("image.txt", b"a\x00b", "image.txt is a binary file"),
        ("empty.md", b" \n", "empty.md is empty"),
        ("", b"text", "no name"),
    ],
)
def test_the_error_for_a_file_that_is_not_text_names_it(name: str, raw: bytes, complaint: str) -> None:
    with pytest.raises(BadFile, match=complaint):
        read_document(name, raw)


def test_the_folders_in_a_files_name_and_its_byte_order_mark_are_left_out() -> None:
    read = read_document("C:\\notes\\fjord.md", b"\xef\xbb\xbfThe fjord is deep.")

    assert read == {"document_id": "fjord.md", "title": "fjord.md", "text": "The fjord is deep."}


def test_the_default_title_of_a_pasted_text_is_its_first_line() -> None:
    assert typed_document(" ", "First line\nsecond")["title"] == "First line"
    with pytest.raises(InvalidInput):
        typed_document("title", "  ")
