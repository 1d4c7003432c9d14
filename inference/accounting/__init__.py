"""This package books what calls cost, and reports each call that ends."""
