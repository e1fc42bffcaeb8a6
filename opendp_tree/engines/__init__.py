"""Tables that stay where they are: bounded leaf counts by a query that the package writes itself."""
