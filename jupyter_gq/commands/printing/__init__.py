"""Text that commands print: tables, sentences, JSON and the news of a job."""
