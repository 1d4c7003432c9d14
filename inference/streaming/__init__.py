"""This package reads replies while they are being generated."""
