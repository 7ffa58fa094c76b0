"""The commands of users: jobs, queues, submit, logs and others. They reach the service through its client."""
