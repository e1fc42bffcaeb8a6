"""Post-processing: what is done to a release costs no privacy. One step a file."""
