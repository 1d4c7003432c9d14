"""A strategy beside its controls at equal compute: what is it worth, and is its routing worth anything?"""
