"""Public data sets by name: each row of theirs becomes an item of ours. The project ships none of them."""
