"""This package generates documentation from the code; `make docs` writes it, `make check` compares it."""
