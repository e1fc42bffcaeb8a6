"""Where a row belongs: the kinds of keys, one per file."""
