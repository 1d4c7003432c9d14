"""The checks of the source code belong to `make check`: names, migrations, citations, docstrings, sizes."""
