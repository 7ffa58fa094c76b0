"""The administrator's settings: traits of the hub's config file, checked and frozen."""
