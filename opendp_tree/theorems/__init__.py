"""Pure mathematics: one theorem, one function, one proof page under docs/proofs, all with one name.

Nothing here knows OpenDP or NumPy.
"""
