"""What no mechanism can beat."""
