"""Variables that a job takes along: pickled in the user's kernel, checked in a new process, loaded in the job's."""
