"""Other packages use the inference client through one module, which loads no more than it must."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import inference
from inference.backend_client import Backend

ROOT = Path(inference.__file__).parents[1]


@pytest.mark.parametrize("name", inference.__all__)
def test_every_public_name_can_be_imported(name: str) -> None:
    assert getattr(inference, name) is not None


def test_type_checkers_and_the_interpreter_see_the_same_names() -> None:
    tree = ast.parse(Path(inference.__file__).read_text())
    imported = {
        alias.name: node.module
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("inference.")
        for alias in node.names
    }
    loaded = {name: f"inference.{module}" for module, names in inference._NAMES.items() for name in names}

    assert imported == loaded
    assert sorted(loaded) == sorted(inference.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'Bakend'"):
        _ = inference.Bakend


def test_a_public_name_is_the_same_object_as_in_its_module() -> None:
    assert inference.Backend is Backend


@pytest.mark.parametrize("name", ["EventParser", "Call", "Spend", "parse_object", "InferenceError"])
def test_light_names_load_neither_numpy_nor_an_http_client(name: str) -> None:
    program = (
        f"import sys; from inference import {name}; print([m for m in ('numpy', 'httptools') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
