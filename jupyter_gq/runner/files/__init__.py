"""The files of a job: its bundle, its folder, its log."""
