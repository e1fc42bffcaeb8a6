"""The algorithms of the paper, complete and corrected."""
