"""The effects of cells beside assigned variables: on files, databases, values in place, and the whole process."""
