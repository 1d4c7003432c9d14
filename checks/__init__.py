"""The checks of the source code belong to `make check`: names that stand twice, migrations, citations, sizes."""
