"""Pictures of releases and plans, with Plotly (the extra `plot`). They show what was released and touch no data."""
