"""What mechanisms are predicted to err by, and the parameters that make it least."""
