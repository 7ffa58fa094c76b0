"""Parts of pods that notebooks and jobs share."""
