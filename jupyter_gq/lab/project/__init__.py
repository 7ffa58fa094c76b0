"""The files of the notebook's folder that a job takes along: which ones its code needs, and their frozen content."""
