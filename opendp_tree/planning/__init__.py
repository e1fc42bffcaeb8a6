"""What a mechanism's error will be, before any data is touched. Floats: nothing here bears on privacy."""
