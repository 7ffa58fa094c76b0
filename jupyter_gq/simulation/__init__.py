"""The real scheduler run forward on what is not real: traces, forecasts, what-if. Pure: no files, no clock."""
