"""What can be done with a release without touching the data again."""
