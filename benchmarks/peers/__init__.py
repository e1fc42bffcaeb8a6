"""The same job by what people would use instead: three levels of counts from a million rows. `make bench-peers`."""
