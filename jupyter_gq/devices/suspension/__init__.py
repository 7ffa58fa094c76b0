"""The suspension and the resume of shares: the suspender, its journal, and the recovery after a crash."""
