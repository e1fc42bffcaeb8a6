"""What a mechanism gives: estimates and intervals, in words, files and frames."""
