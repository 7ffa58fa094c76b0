"""Files of users and jobs: they are read and copied without trust in what user code wrote."""
