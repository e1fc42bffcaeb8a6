"""What happens to releases when the world around them fails: `make faults`.

Nothing may be half-written, overspent, forgotten or silent. Processes are forked from a parent that has imported all
there is and never run Polars, whose threads would not survive a fork.
"""
