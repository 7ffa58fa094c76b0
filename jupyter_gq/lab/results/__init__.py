"""The results of a job in the folders of its user: copies of its files, and its executed notebook."""
