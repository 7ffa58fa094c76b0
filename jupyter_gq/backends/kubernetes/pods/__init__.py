"""The index of pods by run, and the result that a pod shows."""
