"""Makes the parts of the documentation that follow from the code; `make docs` writes them, `make check` compares."""
