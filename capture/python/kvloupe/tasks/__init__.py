"""Tasks of lm-evaluation-harness that come with this package."""
