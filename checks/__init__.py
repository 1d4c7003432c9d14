"""Checks of the source code's structure, for `make check`: names that stand twice, sizes of files and folders."""
