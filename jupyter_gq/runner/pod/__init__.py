"""The parts that only a pod needs: fetching the job, process 1, checkpoints at a URL, the termination message."""
